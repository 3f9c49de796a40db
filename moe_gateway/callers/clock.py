"""What ends a request that is answered before its end: time, and its caller."""

import asyncio
from collections.abc import Callable

from starlette.types import Receive

from moe_gateway.callers.corked import Line
from moe_gateway.relay import Reply
from moe_gateway.upstream.deadlines import Deadlines


class Clock:
    """What time does to one request: signs of life to who waits for a stream, and its deadline."""

    __slots__ = ("_deadlines", "_every", "_reply", "_task", "_telling")

    def __init__(
        self,
        reply: Reply,
        task: "asyncio.Task[object]",
        deadlines: Deadlines,
        *,
        deadline: float,
        every: float | None,
    ) -> None:
        """`deadline` in seconds from now; `every` so many seconds a sign, None for no signs."""
        self._reply, self._task, self._deadlines = reply, task, deadlines
        self._every = every
        self._telling: asyncio.Task[None] | None = None
        deadlines.set(self, deadline, self._end)
        if every is not None:
            deadlines.set(reply, every, self._tell)

    def stop(self) -> None:
        self._deadlines.drop(self)
        if self._every is not None:
            self._deadlines.drop(self._reply)

    def _end(self) -> None:
        if not self._reply.ended:
            self._reply.late = True
            self._task.cancel()

    def _tell(self) -> None:
        if self._every is not None and not (self._reply.begun or self._reply.ended):
            self._telling = asyncio.create_task(self._reply.sign_of_life())
            self._deadlines.set(self._reply, self._every, self._tell)


def watched(
    line: Line | None, receive: Receive, reply: Reply, task: "asyncio.Task[object]"
) -> Callable[[], object]:
    """End the task when the caller hangs up, in every phase; gives what ends the watching. Where
    the line cannot tell it, one waiter for each request notices it."""

    def gone() -> None:
        if not reply.ended:
            reply.gone = True
            task.cancel()

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    if line is None:
        return asyncio.create_task(wait()).cancel
    return line.watch(gone)
