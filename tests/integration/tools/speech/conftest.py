"""The audio API of a gateway, with sounds and words that are known."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hearth.openai_api.client import ModelClient
from pipecatapp.workflow import Context

SOUND = b"RIFF\x00sound"


class Audio:
    """What was asked, and what is answered."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.refusal = ""

    async def speech(self, request: Request) -> Response:
        self.asked.append(await request.json())
        return self._refused() or Response(SOUND, media_type="audio/wav")

    async def transcriptions(self, request: Request) -> Response:
        async with request.form() as form:
            file = form["file"]
            assert isinstance(file, UploadFile)
            self.asked.append({**form, "file": await file.read()})
        return self._refused() or JSONResponse({"text": "It is open."})

    def _refused(self) -> Response | None:
        error = {"error": {"message": self.refusal}}
        return JSONResponse(error, 400) if self.refusal else None


@pytest.fixture
def audio() -> Audio:
    return Audio()


@pytest.fixture
def address(audio: Audio, serve: Callable[[ASGIApp], str]) -> str:
    paths = {"speech": audio.speech, "transcriptions": audio.transcriptions}
    routes = [Route(f"/v1/audio/{n}", route, methods=["POST"]) for n, route in paths.items()]
    return f"{serve(Starlette(routes=routes))}/v1"


@pytest.fixture
async def ctx(address: str, tmp_path: Path) -> AsyncIterator[Context]:
    """A run with a workspace and that gateway."""
    async with ModelClient(address, "key") as client:
        yield Context(workspace=tmp_path, services={ModelClient: client})
