"""Client of one OpenAI-compatible server. It never retries: the caller decides what to repeat."""

import base64
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2
from pydantic import ValidationError

from hearth.openai_api.chat import ChatRequest, Chunk, Completion
from hearth.openai_api.errors import ModelLost, ModelRefused, ModelUnavailable, message_of
from hearth.openai_api.reading import read_json
from hearth.openai_api.sse import DONE, EventTooLong, SseReader


@dataclass(frozen=True)
class Timeouts:
    """Seconds. `idle` also bounds the wait for the first byte; None waits for ever."""

    connect: float = 5.0
    idle: float | None = 600.0


class ChunkStream:
    """A streamed answer: iterate it once. `headers` are those of the HTTP answer."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """Yield the chunks as they arrive.

        Raises `ModelLost` if the stream breaks, contains an error, or ends without `[DONE]`.
        """
        reader = SseReader()
        try:
            async for data in self._answer.aiter_bytes():
                for event in reader.feed(data):
                    if event.data == DONE:
                        return
                    yield _chunk(event.data)
        except (httpx2.RequestError, EventTooLong) as error:
            raise ModelLost(f"The answer broke off: {_reason(error)}.") from error
        raise ModelLost("The answer ended before it was complete.")


class ModelClient:
    """A client of the server at `base_url`, such as `http://127.0.0.1:8080/v1`; a context manager.

    For a server whose address changes, `base_url` is a function that returns the current address,
    or None if it is unknown. `tls` defines the trusted certificates.
    """

    def __init__(
        self,
        base_url: str | Callable[[], str | None],
        key: str,
        timeouts: Timeouts | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        timeouts = timeouts or Timeouts()
        self._where = base_url
        self._http = httpx2.AsyncClient(
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(timeouts.idle, connect=timeouts.connect, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            verify=tls if tls is not None else ssl.create_default_context(),
            trust_env=False,
        )

    @property
    def base_url(self) -> str:
        """The current address. Raises `ModelUnavailable` if it is unknown."""
        found = self._where if isinstance(self._where, str) else self._where()
        if found is None:
            raise ModelUnavailable("No healthy server is known.")
        return found.rstrip("/")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; active answers are interrupted."""
        await self._http.aclose()

    @asynccontextmanager
    async def stream(
        self, request: ChatRequest, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[ChunkStream]:
        """Ask for a streamed answer. Leaving the block closes the connection: the model stops.

        Raises `ModelUnavailable` or `ModelRefused` on entry; see `ChunkStream` for the rest.
        """
        call = self._http.build_request(
            "POST",
            f"{self.base_url}/chat/completions",
            json={**request.body(), "stream": True},
            headers=headers,
        )
        answer = await self._send(call, stream=True)
        try:
            yield ChunkStream(answer)
        finally:
            await answer.aclose()

    async def complete(
        self, request: ChatRequest, *, headers: Mapping[str, str] | None = None
    ) -> Completion:
        """Request the complete answer.

        Raises `ModelUnavailable`, `ModelRefused`, or `ModelLost` if the response is not valid.
        """
        call = self._http.build_request(
            "POST",
            f"{self.base_url}/chat/completions",
            json={**request.body(), "stream": False},
            headers=headers,
        )
        answer = await self._send(call)
        try:
            return Completion.model_validate_json(answer.content)
        except ValidationError as error:
            raise ModelLost("The response is not a chat completion.") from error

    async def models(self) -> list[str]:
        """The ids of the models that the server offers; raises like `complete`."""
        answer = await self._send(self._http.build_request("GET", f"{self.base_url}/models"))
        try:
            return [str(model["id"]) for model in answer.json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ModelLost("The response is not a list of models.") from error

    async def speech(
        self, text: str, *, voice: str, kind: str, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The text as a sound file, such as `wav`. Raises `ModelUnavailable` or `ModelRefused`."""
        asked = {"model": "tts-1", "input": text, "voice": voice, "response_format": kind}
        call = self._http.build_request(
            "POST", f"{self.base_url}/audio/speech", json=asked, headers=headers
        )
        return (await self._send(call)).content

    async def image(
        self,
        prompt: str,
        *,
        model: str,
        size: str,
        seed: int,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, str]:
        """A picture of a prompt, and the expert that made it; empty if the server names none.

        `size` is such as `1024x1024`; OpenAI's API does not have `seed`, servers of diffusion
        models do. Raises like `complete`.
        """
        asked = {
            "model": model, "prompt": prompt, "n": 1, "size": size, "seed": seed,
            "response_format": "b64_json",
        }  # fmt: skip
        call = self._http.build_request(
            "POST", f"{self.base_url}/images/generations", json=asked, headers=headers
        )
        answer = await self._send(call)
        try:
            data = base64.b64decode(answer.json()["data"][0]["b64_json"], validate=True)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelLost("The response has no picture as b64_json.") from error
        return data, answer.headers.get("x-hearth-expert", "")

    async def transcription(
        self, sound: bytes, *, language: str | None, headers: Mapping[str, str] | None = None
    ) -> str:
        """The words of a sound file; raises like `complete`."""
        spoken = {} if language is None else {"language": language}
        call = self._http.build_request(
            "POST", f"{self.base_url}/audio/transcriptions", headers=headers,
            files={"file": ("sound", sound)}, data={"model": "whisper-1", **spoken},
        )  # fmt: skip
        try:
            return str((await self._send(call)).json()["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelLost("The response is not a transcription.") from error

    async def _send(self, call: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        try:
            answer = await self._http.send(call, stream=stream)
            if answer.is_success:
                return answer
            body = _decoded(await answer.aread())
        except httpx2.TransportError as error:
            raise ModelUnavailable(f"{_server(call)}: {_reason(error)}.") from error
        except httpx2.RequestError as error:
            raise ModelLost(f"The response cannot be read: {_reason(error)}.") from error
        if answer.is_server_error:
            message = f"{_server(call)}: HTTP {answer.status_code}: {message_of(body)}"
            raise ModelUnavailable(message, status=answer.status_code)
        raise ModelRefused(answer.status_code, body)


def _server(call: httpx2.Request) -> str:
    return f"{call.url.scheme}://{call.url.netloc.decode()}"


def _chunk(data: str) -> Chunk:
    body = _decoded(data.encode())
    if isinstance(body, dict) and body.get("error"):
        raise ModelLost(message_of(body))
    try:
        return Chunk.model_validate(body)
    except ValidationError as error:
        raise ModelLost("An event of the response is not a chat completion chunk.") from error


def _decoded(data: bytes) -> Any:
    try:
        return read_json(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def _reason(error: Exception) -> str:
    """Return the error's text; transport errors without a text are described by their class."""
    return str(error) or type(error).__name__
