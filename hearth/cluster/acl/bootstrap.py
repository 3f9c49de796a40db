"""Set up the access control of Consul and Nomad with a management token from the file of secrets.

A second call with a valid token does nothing. If access control was set up with another token,
nothing is changed: the message states how root can reset it.
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
    """Make `secret` a management token; return False if it is one already.

    `wait`: seconds to retry while the servers have no leader. Raises `BootstrapLost`, or the error
    of Consul if its access control is switched off.
    """
    endpoint = replace(endpoint, leader_timeout=wait)
    with Consul(replace(endpoint, token=secret)) as client:
        if _works(client.session.call, "acl/token/self"):
            return False
    if write:
        with Consul(replace(endpoint, token="")) as anonymous:
            _bootstrap_consul(anonymous, endpoint, secret)
    return True


def _bootstrap_consul(anonymous: Consul, endpoint: Endpoint, secret: str) -> None:
    body = {"BootstrapSecret": secret}
    try:
        made = anonymous.session.call("PUT", "acl/bootstrap", body)
    except Refused as error:
        raise _lost("Consul", anonymous.endpoint.url, anonymous.leader, error) from error
    if made["SecretID"] != secret:
        # Consul before 1.14 ignores the requested secret, so it is replaced immediately.
        with Consul(replace(endpoint, token=made["SecretID"])) as chosen:
            ours = {
                "SecretID": secret,
                "Description": made["Description"],
                "Policies": [{"ID": GLOBAL_MANAGEMENT}],
            }
            chosen.session.call("PUT", "acl/token", ours)
        with Consul(replace(endpoint, token=secret)) as client:
            client.session.call("DELETE", f"acl/token/{made['AccessorID']}")


def bootstrap_nomad(
    endpoint: Endpoint, secret: str, *, write: bool = True, wait: float = 120.0
) -> bool:
    """Make `secret` a management token; return False if it is one already.

    `wait`: seconds to retry while the servers have no leader. Raises `BootstrapLost`, or the error
    of Nomad if its access control is switched off.
    """
    endpoint = replace(endpoint, leader_timeout=wait)
    with Nomad(replace(endpoint, token=secret)) as client:
        if _works(client.session.call, "acl/token/self"):
            return False
    if write:
        with Nomad(replace(endpoint, token="")) as anonymous:
            body = {"BootstrapSecret": secret}
            try:
                anonymous.session.call("POST", "acl/bootstrap", body)
            except Refused as error:
                raise _lost("Nomad", endpoint.url, anonymous.leader, error) from error
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
