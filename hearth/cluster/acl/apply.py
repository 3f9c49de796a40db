"""Set up access control and keep it as declared, for the tasks `consul_acl` and `nomad_acl`."""

from collections.abc import Callable
from typing import TypeVar

from hearth.cluster.action import TaskArgs
from hearth.cluster.endpoint import endpoint_of
from hearth.cluster.errors import Unreachable

Kept = TypeVar("Kept")


def apply(
    task: TaskArgs,
    bootstrap: Callable[..., bool],
    keep: Callable[..., Kept],
    everything_new: Callable[[], Kept],
) -> tuple[bool, Kept]:
    """Set up access control and write the declared objects.

    Returns whether access control was set up, and the result of `keep`.
    `bootstrap`: `bootstrap_consul` or `bootstrap_nomad`. `keep`: writes the objects at an endpoint,
    unless `write` is false. `everything_new`: the changes that a check shows if no cluster exists.
    """
    endpoint, write = endpoint_of(task.params), not task.check_mode
    try:
        made = bool(task.params["bootstrap"]) and bootstrap(
            endpoint, task.params["token"], write=write
        )
        if made and not write:
            return True, everything_new()
        return made, keep(endpoint, write=write)
    except Unreachable as error:
        if write:
            raise
        task.warn(f"{error} All of it is shown as new.")
        return bool(task.params["bootstrap"]), everything_new()
