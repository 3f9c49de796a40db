"""Cancel a running request on deadline, client disconnect or key revocation."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from math import inf

from starlette.types import Receive

from moe_gateway.errors import deadline_passed, no_key
from moe_gateway.http.deadlines import Deadlines
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import STREAMING, Cut, Reply


class RequestTimeouts:
    """The timeouts of one request: keep-alive comments until its stream starts, and its deadline.

    It represents the request in the list of those in progress (see `end_closed`).
    """

    __slots__ = ("_deadlines", "_ends", "_every", "_reply", "_sending", "_task", "caller", "due")

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
        """`deadline` in seconds from now; `every`: seconds between two keep-alive comments."""
        self.caller = caller
        self._reply, self._task, self._deadlines, self._every = reply, task, deadlines, every
        self._sending: asyncio.Task[None] | None = None
        deadlines.add(self)
        self._ends = deadlines.within(self, deadline)
        if every < deadline:
            deadlines.within(self, every)

    def stop(self) -> None:
        self._deadlines.remove(self)

    def revoke(self) -> None:
        """Cancel the request: the key of its caller was revoked."""
        _cut(self._reply, self._task, Cut.REVOKED)

    def late(self) -> None:
        """Send a keep-alive comment, or cancel the request if its deadline has passed."""
        left = self._ends - asyncio.get_running_loop().time()
        if left > 0:
            self._keep_alive(left)
        else:
            _cut(self._reply, self._task, Cut.TIMED_OUT)

    def _keep_alive(self, left: float) -> None:
        if self._reply.phase >= STREAMING:
            self._deadlines.within(self, left)
        else:
            self._sending = asyncio.create_task(self._reply.keep_alive())
            self._deadlines.within(self, min(self._every, left))


def end_closed(deadlines: Deadlines, closed: Collection[Caller]) -> None:
    """Cancel the requests of callers whose keys were revoked."""
    for one in deadlines.known():
        if isinstance(one, RequestTimeouts) and one.caller in closed:
            one.revoke()


async def send_cut(reply: Reply, cut: Cut, deadline: float) -> None:
    """Tell the caller, unless it has disconnected, why its answer is cut off."""
    if cut is not Cut.DISCONNECTED and not reply.ended:
        await reply.refuse(no_key() if cut is Cut.REVOKED else deadline_passed(deadline))


def watched(
    line: Line | None, receive: Receive, reply: Reply, task: "asyncio.Task[object]"
) -> Callable[[], object]:
    """Cancel the task when the caller disconnects; returns a function that ends the watching.

    Without a line, a task for each request waits for the disconnect.
    """
    disconnected = partial(_cut, reply, task, Cut.DISCONNECTED)
    if line is None:
        return asyncio.create_task(_wait(receive, disconnected)).cancel
    return line.watch(disconnected)


def _cut(reply: Reply, task: "asyncio.Task[object]", cut: Cut) -> None:
    """Cancel the task of a reply that has not ended. The first reason counts, except that nothing
    can be sent to a caller that has disconnected."""
    if not reply.ended:
        if reply.cut is None or cut is Cut.DISCONNECTED:
            reply.cut = cut
        task.cancel()


async def _wait(receive: Receive, disconnected: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected()
