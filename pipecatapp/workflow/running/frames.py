"""Active parts of a run, nested, and the propagation of failures.

A failure propagates outwards to the first part that handles it (`on_error`). Everything inside that
part is ended first; then the run continues there. Without such a part the run fails.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from pipecatapp.workflow.running.instance import Instances

GRACE = 10.0
"""Seconds for a tool to end after its cancellation."""

Rescue = Callable[[], None]
"""The continuation after a failure."""


def _no_rescue() -> Rescue | None:
    return None


class Frame:
    """An active node, or an active iteration of a loop."""

    def __init__(
        self,
        path: str,
        outer: "Frame | None",
        *,
        done: Callable[[Any], None] = lambda _output: None,
        catch: Callable[[], Rescue | None] = _no_rescue,
    ) -> None:
        self.path, self.outer, self.done, self.catch = path, outer, done, catch
        self.inside: set[Frame] = set()
        self.call: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.over: bool = outer.over if outer else False
        if outer is not None:
            outer.inside.add(self)

    def within(self) -> Iterator["Frame"]:
        """It and everything inside."""
        for frame in self.inside:
            yield from frame.within()
        yield self

    def after(self, wait: float, begin: Callable[[], None]) -> None:
        """Start something later, unless the frame has ended by then."""
        pause = Frame(self.path, self)

        def over() -> None:
            pause.end()
            begin()

        pause.timer = asyncio.get_running_loop().call_later(wait, over)

    def end(self) -> None:
        """End the frame and everything in it."""
        for frame in self.within():
            frame.over = True
            if frame.timer is not None:
                frame.timer.cancel()
        if self.outer is not None:
            self.outer.inside.discard(self)


class Failures:
    """Propagates failures to the parts of the document that handle them."""

    def __init__(
        self,
        instances: Instances,
        tasks: "set[asyncio.Task[None]]",
        *,
        lost: Callable[[str, str], None],
        go_on: Callable[[], None],
    ) -> None:
        self._instances, self._tasks, self._lost, self._go_on = instances, tasks, lost, go_on

    def fail(self, frame: Frame | None, path: str, reason: str, *, final: bool = False) -> None:
        """Fail the node at `path` in `frame`. No document can handle a final failure."""
        if frame is not None and frame.over:
            return
        catcher, rescue = frame, None
        while catcher is not None and (final or (rescue := catcher.catch()) is None):
            catcher = catcher.outer
        if catcher is None or rescue is None:
            self._lost(path, reason)
            return
        calls = [one.call for one in catcher.within() if one.call and not one.call.done()]
        catcher.end()
        if calls:
            self._spawn(self._unwind(calls, catcher, path, reason, rescue))
        else:
            self._rescued(catcher, path, reason, rescue)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _unwind(
        self,
        calls: "list[asyncio.Task[None]]",
        catcher: Frame,
        path: str,
        reason: str,
        rescue: Rescue,
    ) -> None:
        for call in calls:
            call.cancel()
        await asyncio.wait(calls, timeout=GRACE)
        self._rescued(catcher, path, reason, rescue)
        self._go_on()

    def _rescued(self, catcher: Frame, path: str, reason: str, rescue: Rescue) -> None:
        self._instances.close(path, reason, within=catcher.path)
        rescue()
