"""What ends a request that is answered before its end: time, and its caller."""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf

from starlette.types import Receive

from moe_gateway.callers.corked import Line
from moe_gateway.relay import Reply
from moe_gateway.upstream.deadlines import Deadlines


class Clock:
    """What time does to one request: signs of life to who waits for a stream, and its deadline."""

    __slots__ = ("_deadlines", "_ends", "_every", "_reply", "_task", "_telling", "due")

    due: float

    def __init__(
        self,
        reply: Reply,
        task: "asyncio.Task[object]",
        deadlines: Deadlines,
        *,
        deadline: float,
        every: float = inf,
    ) -> None:
        """`deadline` in seconds from now; `every` so many seconds a sign."""
        self._reply, self._task, self._deadlines, self._every = reply, task, deadlines, every
        self._telling: asyncio.Task[None] | None = None
        deadlines.add(self)
        self._ends = deadlines.within(self, deadline)
        if every < deadline:
            deadlines.within(self, every)

    def stop(self) -> None:
        self._deadlines.remove(self)

    def late(self) -> None:
        """It is time for a sign of life, or for the end."""
        left = self._ends - asyncio.get_running_loop().time()
        if left > 0:
            self._tell(left)
        elif not self._reply.ended:
            self._reply.late = True
            self._task.cancel()

    def _tell(self, left: float) -> None:
        if self._reply.begun or self._reply.ended:
            self._deadlines.within(self, left)
        else:
            self._telling = asyncio.create_task(self._reply.sign_of_life())
            self._deadlines.within(self, min(self._every, left))


def watched(
    line: Line | None, receive: Receive, reply: Reply, task: "asyncio.Task[object]"
) -> Callable[[], object]:
    """End the task when the caller hangs up, in every phase; gives what ends the watching. Where
    the line cannot tell it, one waiter for each request notices it."""
    gone = partial(_gone, reply, task)
    if line is None:
        return asyncio.create_task(_wait(receive, gone)).cancel
    return line.watch(gone)


def _gone(reply: Reply, task: "asyncio.Task[object]") -> None:
    if not reply.ended:
        reply.gone = True
        task.cancel()


async def _wait(receive: Receive, gone: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone()
