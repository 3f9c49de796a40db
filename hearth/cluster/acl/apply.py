"""Set up access control and keep it as declared, for the tasks `consul_acl` and `nomad_acl`."""

from collections.abc import Callable
from typing import TypeVar

from hearth.cluster.action import Asked
from hearth.cluster.endpoint import endpoint_of
from hearth.cluster.errors import Unreachable

Kept = TypeVar("Kept")


def apply(
    asked: Asked,
    bootstrap: Callable[..., bool],
    keep: Callable[..., Kept],
    everything_new: Callable[[], Kept],
) -> tuple[bool, Kept]:
    """Whether access control was set up, and what `keep` says was written.

    `bootstrap`: `bootstrap_consul` or `bootstrap_nomad`. `keep`: makes it so at an endpoint, unless
    `write` is false. `everything_new`: what a check shows of a cluster that is not there yet.
    """
    endpoint, write = endpoint_of(asked.params), not asked.check_mode
    try:
        made = bool(asked.params["bootstrap"]) and bootstrap(
            endpoint, asked.params["token"], write=write
        )
        if made and not write:
            return True, everything_new()
        return made, keep(endpoint, write=write)
    except Unreachable as error:
        if write:
            raise
        asked.warn(f"{error} All of it is shown as new.")
        return bool(asked.params["bootstrap"]), everything_new()
