"""What goes out to a caller who does not take it."""

import asyncio

import pytest
from starlette.types import Message

from moe_gateway.http.deadlines import Deadlines
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import Cut, Reply
from moe_gateway.requests.timeouts import RequestTimeouts


async def test_deadline_ends_who_does_not_take_the_last_piece() -> None:
    """It waits for room on the way out, and whoever asks keeps a slot of the expert meanwhile."""

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    reply = Reply(b"req_1", send)
    await reply.start(200, b"audio/wav", [])
    ending = asyncio.create_task(reply.end(b"the last of it"))
    timeouts = RequestTimeouts(reply, ending, Deadlines(), Caller("phone"), deadline=0.01)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ending, 30)
    timeouts.stop()

    assert (reply.cut, reply.ended) == (Cut.TIMED_OUT, False)
