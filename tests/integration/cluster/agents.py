"""Real agents of Consul and Nomad on loopback, with access control and TLS."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from hearth.cluster import binaries
from hearth.cluster.certificates import Pair, issue, make_authority
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.errors import ClusterError
from hearth.cluster.nomad import Nomad
from tests.binaries.consul.build import build as build_consul
from tests.ports import free_ports

NAMES = [
    "localhost",
    "127.0.0.1",
    "server.dc1.consul",
    "server.global.nomad",
    "client.global.nomad",
]
SLOW_FINGERPRINTS = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault,cni,bridge"


@dataclass
class Agent:
    """One running agent; `endpoint` has no token."""

    endpoint: Endpoint
    log: Path
    data: Path
    process: subprocess.Popen[bytes]

    def known_as(self, token: str) -> Endpoint:
        return replace(self.endpoint, token=token)


@dataclass
class Files:
    """The authority and one machine's certificate, as files."""

    authority: Pair
    ca: Path
    certificate: Path
    key: Path


def write_files(folder: Path) -> Files:
    """A new authority with a certificate for loopback."""
    authority = make_authority("Test authority")
    machine = issue(authority, "loopback", NAMES)
    files = Files(authority, folder / "ca.pem", folder / "machine.pem", folder / "machine-key.pem")
    files.ca.write_text(authority.certificate)
    files.certificate.write_text(machine.certificate)
    files.key.write_text(machine.key)
    return files


@contextmanager
def consul_agent(
    folder: Path, *, acl: bool = True, connect: bool = False, gossip: str | None = None
) -> Iterator[Agent]:
    """One Consul server that has a leader; `gossip`: the key that its gossip is encrypted with."""
    https, server, lan = free_ports(3)
    files = write_files(folder)
    config = {
        "server": True, "bootstrap_expect": 1, "node_name": "solo", "datacenter": "dc1",
        "data_dir": str(folder / "data"), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
        "ports": {"http": -1, "https": https, "dns": -1, "grpc": -1, "server": server,
                  "serf_lan": lan, "serf_wan": -1},
        "ca_file": str(files.ca), "cert_file": str(files.certificate), "key_file": str(files.key),
        "verify_incoming": False, "verify_outgoing": True,
        "performance": {"raft_multiplier": 1}, "disable_update_check": True,
        "acl": {"enabled": acl, "default_policy": "deny" if acl else "allow"},
        "connect": {"enabled": connect},
        **({"encrypt": gossip} if gossip else {}),
    }  # fmt: skip
    (folder / "consul.json").write_text(json.dumps(config))
    program = binaries.find("consul") or build_consul()
    command = [str(program), "agent", f"-config-file={folder / 'consul.json'}"]
    endpoint = Endpoint(f"https://127.0.0.1:{https}", ca_file=files.ca)
    with _running(command, folder, endpoint) as agent:
        wait_for(lambda: Consul(endpoint).leader() != "", agent)
        yield agent


@contextmanager
def nomad_agent(
    folder: Path,
    *,
    client: bool = True,
    extra: dict[str, Any] | None = None,
    gossip: str | None = None,
) -> Iterator[Agent]:
    """One Nomad that is server and, unless told not to, client with raw_exec; it has a leader."""
    http, rpc, serf = free_ports(3)
    files = write_files(folder)
    config = {
        "name": "solo", "data_dir": str(folder / "data"), "bind_addr": "127.0.0.1",
        "ports": {"http": http, "rpc": rpc, "serf": serf}, "disable_update_check": True,
        "advertise": dict.fromkeys(("http", "rpc", "serf"), "127.0.0.1"),
        "server": {"enabled": True, "bootstrap_expect": 1, "raft_multiplier": 1,
                   **({"encrypt": gossip} if gossip else {})},
        # On a disk that is 80 % full, Nomad deletes what failed before a test can look at it.
        "client": {"enabled": client, "network_interface": "lo", "cpu_total_compute": 4000,
                   "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100,
                   "options": {"driver.allowlist": "raw_exec",
                               "fingerprint.denylist": SLOW_FINGERPRINTS}},
        "plugin": {"raw_exec": {"config": {"enabled": True}}},
        "acl": {"enabled": True},
        "tls": {"http": True, "rpc": True, "ca_file": str(files.ca), "verify_https_client": False,
                "cert_file": str(files.certificate), "key_file": str(files.key)},
        "consul": {"client_auto_join": False, "server_auto_join": False, "auto_advertise": False},
        **(extra or {}),
    }  # fmt: skip
    (folder / "nomad.json").write_text(json.dumps(config))
    program = binaries.find("nomad")
    assert program is not None, "this test carries the mark nomad, so there should be one"
    command = [str(program), "agent", f"-config={folder / 'nomad.json'}"]
    endpoint = Endpoint(f"https://127.0.0.1:{http}", ca_file=files.ca)
    with _running(command, folder, endpoint) as agent:
        wait_for(lambda: Nomad(endpoint).leader() != "", agent)
        yield agent


@contextmanager
def _running(command: Sequence[str], folder: Path, endpoint: Endpoint) -> Iterator[Agent]:
    log = folder / "agent.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
    try:
        yield Agent(endpoint, log, folder / "data", process)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _kill_tasks_below(folder)
        _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """Nomad keeps a task's secrets in a file system in memory, which is not removed with it."""
    for mount in psutil.disk_partitions(all=True):
        if mount.mountpoint.startswith(str(folder)):
            subprocess.run(["umount", mount.mountpoint], check=False)


def _kill_tasks_below(folder: Path) -> None:
    """Tasks outlive their agent, which is what makes its restart harmless; here they are left."""
    for process in psutil.process_iter():
        try:
            places = [process.cwd(), *process.cmdline(), *(f.path for f in process.open_files())]
            if process.pid != os.getpid() and any(str(folder) in place for place in places):
                process.kill()
        except (psutil.Error, OSError):
            continue


def wait_for(asked: Any, agent: Agent, *, seconds: float = 120.0) -> None:
    """Ask until it is true; the end of the agent's log tells why it never was."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and agent.process.poll() is None:
        try:
            if asked():
                return
        except ClusterError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"It did not come about:\n{agent.log.read_text()[-3000:]}")
