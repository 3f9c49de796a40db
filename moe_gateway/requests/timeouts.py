"""What ends a request that is answered before its end: time, its caller, and who closes its key."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from math import inf

from starlette.types import Receive

from moe_gateway.errors import deadline_passed, no_key
from moe_gateway.http.deadlines import Deadlines
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.relay import Reply


class Clock:
    """What time does to one request: signs of life to who waits for a stream, and its deadline.

    It stands in for the request where those under way are looked through (see `end_closed`).
    """

    __slots__ = ("_deadlines", "_ends", "_every", "_reply", "_task", "_telling", "caller", "due")

    due: float

    def __init__(
        self,
        reply: Reply,
        task: "asyncio.Task[object]",
        deadlines: Deadlines,
        caller: Caller,
        *,
        deadline: float,
        every: float = inf,
    ) -> None:
        """`deadline` in seconds from now; `every` so many seconds a sign."""
        self.caller = caller
        self._reply, self._task, self._deadlines, self._every = reply, task, deadlines, every
        self._telling: asyncio.Task[None] | None = None
        deadlines.add(self)
        self._ends = deadlines.within(self, deadline)
        if every < deadline:
            deadlines.within(self, every)

    def stop(self) -> None:
        self._deadlines.remove(self)

    def shut(self) -> None:
        """The key of its caller is closed."""
        if not self._reply.ended:
            self._reply.shut = True
            self._task.cancel()

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


def end_closed(deadlines: Deadlines, closed: Collection[Caller]) -> None:
    """End what is under way for callers whose keys are closed."""
    for one in deadlines.known():
        if isinstance(one, Clock) and one.caller in closed:
            one.shut()


async def told_why(reply: Reply, deadline: float) -> str:
    """Tell the caller, if it is still there, why its answer is cut off; gives the event of that."""
    if reply.gone:
        return "caller_gone"
    refused = no_key() if reply.shut else deadline_passed(deadline)
    if not reply.ended:
        await reply.refuse(refused)
    return "key_closed" if reply.shut else "deadline_passed"


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
