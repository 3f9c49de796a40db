"""`python -m pipecatapp.voice.worker SOCKET [FIRST-LAST]`: serve sessions on a Unix socket.

Calls by WebRTC use ports of UDP from FIRST to LAST, or any.

It ends when its standard input does: with the service that started it, however that ended.
"""

import asyncio
import gc
import logging
import sys
from typing import TYPE_CHECKING

import uvicorn
from loguru import logger
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from hearth.service.logs import configure_logs
from hearth.service.names import PIPECATAPP
from pipecatapp.voice.messages import Setup
from pipecatapp.voice.worker.calling import NoCall
from pipecatapp.voice.worker.ports import Loop, ports_of
from pipecatapp.voice.worker.session import converse, warm_up

if TYPE_CHECKING:
    from loguru import Message, Record


async def session(socket: WebSocket) -> None:
    """One connection is one conversation; its first message is the setup."""
    await socket.accept()
    setup = Setup.model_validate_json(await socket.receive_text())
    try:
        await converse(socket, setup)
    except NoCall as error:
        logging.getLogger(__name__).warning("no call: %s", error)
        await socket.send_text('{"type": "unanswered"}')
        await socket.close()
    finally:
        # Processors refer to each other, and few objects hold much memory outside of Python.
        gc.collect()


async def serve(path: str) -> None:
    """Warm up, then listen until standard input ends."""
    await asyncio.to_thread(warm_up)
    gc.collect()
    gc.freeze()  # Permanent objects: collecting them would interrupt audio.
    app = Starlette(routes=[WebSocketRoute("/session", session)])
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            uds=path,
            lifespan="off",  # Without this, each stop would be logged as an error.
            log_config=None,
            access_log=False,
            ws_max_size=1 << 20,
        )
    )
    serving = asyncio.create_task(server.serve())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = server.force_exit = True
    await serving


def matters(record: "Record") -> bool:
    """pipecat warns of every call that it has no pictures."""
    return "video transceiver" not in record["message"]


def retold(message: "Message") -> None:
    """A line of our log: loguru's own would show what each variable of a traceback held."""
    said = message.record
    error = None if said["exception"] is None else said["exception"].value
    told = logging.getLogger(said["name"])
    told.log(said["level"].no, "%s", said["message"], exc_info=error)


def main() -> None:
    """pipecat's log is used from warnings on: lower levels contain transcripts."""
    configure_logs(PIPECATAPP, level="warning")
    logger.add(retold, level="WARNING", filter=matters, diagnose=False)
    path, ports = sys.argv[1], ports_of("".join(sys.argv[2:]))
    with asyncio.Runner(loop_factory=lambda: Loop(ports)) as runner:
        runner.run(serve(path))


if __name__ == "__main__":
    main()
