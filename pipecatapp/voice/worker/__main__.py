"""`python -m pipecatapp.voice.worker SOCKET`: serve sessions on a Unix socket.

It ends when its standard input does: with the service that started it, however that ended.
"""

import asyncio
import logging
import sys

import uvicorn
from loguru import logger
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from pipecatapp.voice.messages import Setup
from pipecatapp.voice.worker.session import converse, warm_up


async def session(socket: WebSocket) -> None:
    """One connection is one conversation; its first message is the setup."""
    await socket.accept()
    await converse(socket, Setup.model_validate_json(await socket.receive_text()))


async def serve(path: str) -> None:
    """Warm up, then listen until standard input ends."""
    await asyncio.to_thread(warm_up)
    app = Starlette(routes=[WebSocketRoute("/session", session)])
    server = uvicorn.Server(
        uvicorn.Config(app, uds=path, log_config=None, access_log=False, ws_max_size=1 << 20)
    )
    serving = asyncio.create_task(server.serve())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = server.force_exit = True
    await serving


def main() -> None:
    """pipecat's own words go to standard error from warnings on: below them stand transcripts."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logger.add(sys.stderr, level="WARNING", format="{level} {name}: {message}")
    asyncio.run(serve(sys.argv[1]))


if __name__ == "__main__":
    main()
