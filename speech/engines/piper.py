"""Our end of the pipe to Piper, which runs in its own process (see `piper_process`)."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import structlog

from speech.audio import Samples, from_pcm
from speech.errors import EngineFailed
from speech.settings import engine_environment

log = structlog.get_logger()

START_SECONDS: Final = 120.0
"""A cold disk and a busy machine; usually it is two seconds."""

SENTENCE_SECONDS: Final = 60.0
"""Longest silence of the process while it computes one sentence."""


class Piper:
    """One voice. Requests take turns by sentence; a process that ended is started anew."""

    def __init__(self, name: str, language: str, model: Path) -> None:
        self.name, self.language, self.rate = name, language, 0
        self._model = model
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Start the process and wait for its greeting."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "speech.engines.piper_process", str(self._model),
            stdin=PIPE, stdout=PIPE, env=engine_environment(),
        )  # fmt: skip
        greeting = json.loads(await self._block(process, START_SECONDS))
        self.rate = greeting["rate"]
        log.info("voice_ready", voice=self.name, pid=process.pid)

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def say(self, sentence: str, *, speed: float) -> AsyncGenerator[Samples]:
        """The samples of one sentence; who leaves early leaves the rest to be thrown away."""
        async with self._turn:
            process = await self._running()
            asked = json.dumps({"text": " ".join(sentence.split()), "speed": speed})
            whole = False
            try:
                await self._send(process, asked)
                while block := await self._block(process, SENTENCE_SECONDS):
                    yield from_pcm(block)
                whole = True
            finally:
                if not whole:
                    await asyncio.shield(self._clear(process))

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            log.warning("voice_restarted", voice=self.name)
            await self.open()
        assert self._process is not None
        return self._process

    async def _clear(self, process: Process) -> None:
        """Read what is left of a sentence that nobody wants any more."""
        try:
            while await self._block(process, SENTENCE_SECONDS):
                pass
        except EngineFailed as error:
            log.warning("voice_lost", voice=self.name, reason=str(error))

    async def _send(self, process: Process, line: str) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise await self._broken(process) from error

    async def _block(self, process: Process, seconds: float) -> bytes:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                length = int.from_bytes(await process.stdout.readexactly(4), "big")
                return await process.stdout.readexactly(length)
        except (asyncio.IncompleteReadError, TimeoutError) as error:
            raise await self._broken(process) from error

    async def _broken(self, process: Process) -> EngineFailed:
        """End what cannot be trusted any more."""
        if process.returncode is None:
            process.kill()
        code = await process.wait()
        return EngineFailed(f"The voice {self.name} broke off (its process ended with {code}).")
