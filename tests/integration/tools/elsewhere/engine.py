"""A Docker Engine of one's own: started by hand, on a socket and a folder of its own."""

import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil

from hearth.lab import systems
from tests import cache

PROGRAMS = ("sh", "cat", "ls", "rm", "sleep", "id", "env", "touch", "tail", "grep")
FOLDERS = ("tmp", "work", "code", "home", "proc", "sys", "dev", "etc")
IMAGE = "hearth/small"
DEBIAN = "hearth/debian"
IMAGE_FILE = "image.tar"


def missing() -> str | None:
    """Why no engine can be started here; nothing when one can."""
    if shutil.which("dockerd") is None:
        return "needs Debian's docker.io"
    if shutil.which("debootstrap") is None:
        return "needs Debian's debootstrap"
    return None if os.geteuid() == 0 else "needs root, to start a Docker Engine"


def small_image(target: Path) -> None:
    """A root file system of this machine's shell and a few programs, with their libraries."""
    files = {str(shutil.which(name, path="/bin:/usr/bin")) for name in PROGRAMS}
    for program in list(files):
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        files |= set(re.findall(r"(/\S+)", told))
    folders = {str(parent) for file in files for parent in Path(file).parents}
    with tarfile.open(target, "w") as archive:
        for folder in sorted({"/", *folders, *(f"/{name}" for name in FOLDERS)}):
            about = tarfile.TarInfo(f".{folder}")
            about.type, about.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(about)
        for file in sorted(files):
            archive.add(os.path.realpath(file), arcname=f".{file}")


def debian_image() -> Path:
    """Return the archive of a small Debian; debootstrap makes it once (a minute, and a network)."""
    system = systems.named(systems.DEFAULT)
    suite, mirror = system.suite, systems.mirrors_used(system)[system.suite]

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as tree:
            # debootstrap mounts /proc in there: in its own mount namespace none is left over.
            begun = ["unshare", "--mount", "--", "debootstrap", "--variant=minbase", suite, tree]
            subprocess.run([*begun, mirror], check=True, stdout=subprocess.DEVNULL)
            # Programs in the container are not root, and a temporary folder is closed to others.
            Path(tree).chmod(0o755)
            left_out = [f"--exclude=./{one}" for one in ("usr/share/*/*", "var/*/apt/*", "dev/*")]
            words = ["tar", "--create", "--file", str(folder / IMAGE_FILE), "--directory", tree]
            subprocess.run([*words, *left_out, "."], check=True)

    return (
        cache.entry("debian-image", [suite, os.uname().machine, mirror, "root 0755"], make)
        / IMAGE_FILE
    )


@contextmanager
def docker_engine(folder: Path) -> Iterator[str]:
    """Its address, while it runs; it has the image `IMAGE` and no network to give."""
    door, log = folder / "d.sock", folder / "dockerd.log"
    command = [
        "dockerd", f"--host=unix://{door}", f"--data-root={folder / 'root'}",
        f"--exec-root={folder / 'exec'}", f"--pidfile={folder / 'pid'}", "--bridge=none",
        "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
        "--storage-driver=vfs",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait(door, process, log)
        small_image(folder / "image.tar")
        import_image(door, folder / "image.tar", IMAGE)
        yield f"unix://{door}"
    finally:
        _stop(process, folder)


def asked(door: str | Path, method: str, path: str, **more: object) -> httpx2.Response:
    """One question to the engine's API."""
    transport = httpx2.HTTPTransport(uds=str(door).removeprefix("unix://"))
    with httpx2.Client(transport=transport, base_url="http://docker", timeout=60) as client:
        return client.request(method, path, **more)  # type: ignore[arg-type]


def _wait(door: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends and process.poll() is None:
        if _opens(door) and asked(door, "GET", "/_ping").is_success:
            return
        time.sleep(0.1)
    raise AssertionError(f"The Docker Engine did not come up:\n{log.read_text()[-3000:]}")


def _opens(door: Path) -> bool:
    """Whether somebody listens; asked with a socket of ours, since httpx2 leaks one that fails."""
    with socket.socket(socket.AF_UNIX) as end:
        return end.connect_ex(str(door)) == 0


def import_image(door: str | Path, file: Path, name: str) -> None:
    """Give the engine an image made of the tree in a tar file."""
    query = {"fromSrc": "-", "repo": name}
    answer = asked(door, "POST", "/images/create", params=query, content=file.read_bytes())
    assert answer.is_success, answer.text


def _stop(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for other in psutil.process_iter():
        try:
            if str(folder) in " ".join(other.cmdline()):
                other.kill()
        except psutil.Error:
            continue
    for mount in psutil.disk_partitions(all=True):
        if mount.mountpoint.startswith(str(folder)):
            subprocess.run(["umount", "--lazy", mount.mountpoint], check=False)
