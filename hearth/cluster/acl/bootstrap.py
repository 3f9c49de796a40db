"""The first token of Consul's and Nomad's access control: ours, written down before it is used.

A second call with the token that works does nothing. When access control was set up before and the
token does not work, nothing is tried: the message says how root brings the two together again.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.errors import BootstrapLost, ClusterError, Denied, Refused
from hearth.cluster.nomad import Nomad

RESET_FILES: Final = {
    "Consul": "/var/lib/consul/acl-bootstrap-reset",
    "Nomad": "/var/lib/nomad/server/acl-bootstrap-reset",
}
GLOBAL_MANAGEMENT: Final = "00000000-0000-0000-0000-000000000001"
"""The id of Consul's policy that allows everything."""


def bootstrap_consul(
    endpoint: Endpoint, secret: str, *, write: bool = True, wait: float = 120.0
) -> bool:
    """Make `secret` a management token; whether that was still to be done.

    `wait`: seconds to go on while the servers have no leader. Raises `BootstrapLost`, or what
    Consul answers when its access control is switched off.
    """
    endpoint = replace(endpoint, leader_timeout=wait)
    with Consul(replace(endpoint, token=secret)) as known:
        if _works(known.session.call, "acl/token/self"):
            return False
    if write:
        with Consul(replace(endpoint, token="")) as nobody:
            _bootstrap_consul(nobody, endpoint, secret)
    return True


def _bootstrap_consul(nobody: Consul, endpoint: Endpoint, secret: str) -> None:
    body = {"BootstrapSecret": secret}
    try:
        made = nobody.session.call("PUT", "acl/bootstrap", body)
    except Refused as error:
        raise _lost("Consul", nobody.endpoint.url, nobody.leader, error) from error
    if made["SecretID"] != secret:
        # Consul before 1.14 ignores the requested secret, so it is replaced immediately.
        with Consul(replace(endpoint, token=made["SecretID"])) as chosen:
            ours = {
                "SecretID": secret,
                "Description": made["Description"],
                "Policies": [{"ID": GLOBAL_MANAGEMENT}],
            }
            chosen.session.call("PUT", "acl/token", ours)
        with Consul(replace(endpoint, token=secret)) as known:
            known.session.call("DELETE", f"acl/token/{made['AccessorID']}")


def bootstrap_nomad(
    endpoint: Endpoint, secret: str, *, write: bool = True, wait: float = 120.0
) -> bool:
    """Make `secret` a management token; whether that was still to be done.

    `wait`: seconds to go on while the servers have no leader. Raises `BootstrapLost`, or what
    Nomad answers when its access control is switched off.
    """
    endpoint = replace(endpoint, leader_timeout=wait)
    with Nomad(replace(endpoint, token=secret)) as known:
        if _works(known.session.call, "acl/token/self"):
            return False
    if write:
        with Nomad(replace(endpoint, token="")) as nobody:
            body = {"BootstrapSecret": secret}
            try:
                nobody.session.call("POST", "acl/bootstrap", body)
            except Refused as error:
                raise _lost("Nomad", endpoint.url, nobody.leader, error) from error
    return True


def _works(call: Callable[..., Any], path: str) -> bool:
    try:
        call("GET", path)
    except Denied:
        return False
    return True


def _lost(product: str, url: str, leader: Callable[[], str], error: Refused) -> ClusterError:
    index = re.search(r"reset index: (\d+)", error.answer)
    if index is None or "Invalid bootstrap reset index" in error.answer:
        return error
    file, name = RESET_FILES[product], leader()
    return BootstrapLost(
        product, url,
        "If you have the right token, put it into the file of secrets (`ansible-vault edit`). If it"
        f" is lost, run as root on the leader ({name}): `echo {index[1]} > {file}`, then run the"
        " playbook again: it sets up the token of the file beside the lost one, and"
        " all jobs, policies and other tokens stay.",
    )  # fmt: skip
