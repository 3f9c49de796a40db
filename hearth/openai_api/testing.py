"""A model server that answers what a test told it to, on a real socket. Public API.

    model = ScriptedModel("small")
    model.when("weather").call_tool("weather.now", {"place": "Oslo"})
    model.when("snow").say("Take a coat.", pause=0.01)
    address = serve(model.app)

The rule is selected by the last message of a request: its text contains the words, or the function
returns true; the first matching rule is used. A rule gives its answers in order, and then repeats
its last one. Without a rule, the model repeats the last message of the user.
"""

import asyncio
import base64
import hashlib
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from hearth.openai_api.answering import Answering
from hearth.openai_api.assemble import Assembler
from hearth.openai_api.chat import ChatRequest
from hearth.openai_api.scripts import (
    CREATED,
    Match,
    Piece,
    Rule,
    Script,
    pieces,
    text_pieces,
    words_of,
)
from hearth.openai_api.sse import DONE
from hearth.service.error_body import error_body

LOOK_SECONDS: Final = 0.05
MOST_IMAGES: Final = 10
_SIZE: Final = re.compile(r"(\d{1,4})x(\d{1,4})")
Outcome = Literal["running", "answered", "aborted", "broken"]
Json = dict[str, Any]


@dataclass
class Received:
    """One received request and its outcome. Times are `time.monotonic()`."""

    path: str
    headers: dict[str, str]
    body: Any
    started: float = field(default_factory=time.monotonic)
    words: int = 0
    outcome: Outcome = "running"
    """`aborted`: the caller hung up first. `broken`: the script broke the answer off."""
    ended: float | None = None


class ScriptedModel:
    """Serves `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, `/v1/rerank`,
    `/v1/images/generations`, `/v1/models`, `/health`, `/metrics` and `/slots` like llama-server: no
    status line before the first word, a queue in front of its slots, and prompts and answers
    counted in words.

    `key`: the Bearer key that `/v1` requires. `stops_unary=False` is a server that continues
    when the caller of a request without `stream` disconnects. `names` are the ids of its models.
    """

    def __init__(
        self, *names: str, key: str | None = None, slots: int = 64, stops_unary: bool = True
    ) -> None:
        self.names = names or ("scripted",)
        self.key, self.slots, self.stops_unary = key, slots, stops_unary
        self.loading = False
        """True: everything answers 503, as while a model loads."""
        self.requests: list[Received] = []
        self._rules: list[Rule] = []
        self._change = threading.Condition()
        self._free: asyncio.Semaphore | None = None

    def when(self, match: Match) -> Rule:
        """A new rule for requests whose last message contains these words, or that the function
        accepts; the first rule that fits is used. It needs at least one answer."""
        rule = Rule(match)
        self._rules.append(rule)
        return rule

    def reset(self) -> None:
        """Remove all rules and recorded requests, so that several tests can share a server."""
        self._rules.clear()
        self.requests.clear()

    @property
    def words_sent(self) -> int:
        return sum(request.words for request in self.requests)

    @property
    def running(self) -> int:
        return self._count("running")

    @property
    def answered(self) -> int:
        return self._count("answered")

    @property
    def aborted(self) -> int:
        return self._count("aborted")

    def wait_until(self, happened: Callable[["ScriptedModel"], bool], timeout: float = 60) -> None:
        """Block until the condition holds; it is checked after each change.

        Raises `TimeoutError` with the requests so far. In async code use `asyncio.to_thread`.
        """
        with self._change:
            if not self._change.wait_for(lambda: happened(self), timeout):
                raise TimeoutError(f"It did not happen within {timeout} s: {self.requests}")

    @property
    def app(self) -> ASGIApp:
        """The ASGI application; serve it with uvicorn, whose connections it can break."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        answer = Answering(receive, send)
        path, headers = scope["path"], {k.decode(): v.decode() for k, v in scope["headers"]}
        texts = {
            "/v1/embeddings": self._embed,
            "/v1/rerank": self._rank,
            "/v1/images/generations": self._draw,
        }
        routes = {"/health": self._health, "/metrics": self._metrics, "/slots": self._slots}
        if path in routes:
            await routes[path](answer)
        elif self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            await answer.error(401, "Invalid API Key", "authentication_error")
        elif self.loading:
            await answer.error(503, "Loading model", "unavailable_error")
        elif path == "/v1/models":
            await answer.json({"object": "list", "data": [_model(name) for name in self.names]})
        elif scope["method"] == "POST" and path in _PIECES:
            await self._complete(path, headers, answer)
        elif scope["method"] == "POST" and path in texts:
            await texts[path](headers, answer)
        else:
            await answer.error(404, "File Not Found", "not_found_error")

    async def _complete(self, path: str, headers: dict[str, str], answer: "Answering") -> None:
        body = await answer.read_json()
        try:
            request = _request(body)
        except ValidationError as error:
            await answer.error(400, str(error), "invalid_request_error")
            return
        received = Received(path, headers, body)
        with self._change:
            self.requests.append(received)
            self._change.notify_all()
            script = self._script(request)
        stops = bool(request.stream) or self.stops_unary
        finished = await answer.unless_gone(
            self._perform(request, script, received, answer), stops=stops
        )
        if not finished:
            self._note(received, "aborted")

    async def _perform(
        self, request: ChatRequest, script: Script, received: Received, answer: "Answering"
    ) -> None:
        if self._free is None:
            self._free = asyncio.Semaphore(self.slots)
        async with self._free:
            await asyncio.sleep(script.wait)
            if not script.held_after:
                await _let_go(script)
            if script.body is not None:
                await answer.whole(script.status, script.body, script.headers)
            elif await self._speak(request, script, received, answer):
                await self._break(request, script, received, answer)
                return
        self._note(received, "answered")

    async def _speak(
        self, request: ChatRequest, script: Script, received: Received, answer: "Answering"
    ) -> bool:
        """Send the words; returns whether the script interrupts the answer here."""
        whole, said, answer_id = Assembler(), 0, f"chatcmpl-{len(self.requests)}"
        for piece in _PIECES[received.path](script, request, answer_id):
            if script.pause and said and piece.word:
                await asyncio.sleep(script.pause)
            if said and said == script.held_after:
                await _let_go(script)
            if script.breaks and said == script.breaks_after:
                return True
            said += bool(piece.word)
            whole.add(piece.chunk)
            if request.stream:
                await answer.event(piece.chunk)
            self._note_word(received, piece)
        completion = {**whole.completion(), "usage": _usage(request, said)}
        if request.stream:
            await self._end_stream(request, completion, answer)
        else:
            await answer.json(completion)
        return False

    async def _end_stream(self, request: ChatRequest, whole: Json, answer: "Answering") -> None:
        if request.stream_options is not None and request.stream_options.include_usage:
            kind = {"chat.completion": "chat.completion.chunk"}.get(whole["object"])
            await answer.event({**whole, "object": kind or whole["object"], "choices": []})
        await answer.event(DONE)
        await answer.end()

    async def _break(
        self, request: ChatRequest, script: Script, received: Received, answer: "Answering"
    ) -> None:
        if script.breaks in ("huge-line", "endless"):
            await answer.go_on(stream=request.stream, lines=script.breaks == "endless")
        if script.breaks == "half-closed":
            await answer.half_close(begun=request.stream and script.breaks_after > 0)
        if script.breaks in ("hang", "half-closed"):
            await asyncio.Event().wait()
        elif script.breaks == "error":
            await answer.fail(
                error_body("The script broke.", type="server_error"), stream=request.stream
            )
        elif script.breaks == "malformed":
            await answer.fail('{"choices": [{"del', stream=request.stream)
        self._note(received, "broken")
        if script.breaks in ("reset", "close"):
            if script.breaks_after and not request.stream:
                await answer.begin_whole()
            await answer.cut(reset=script.breaks == "reset")

    async def _embed(self, headers: dict[str, str], answer: "Answering") -> None:
        body = await answer.read_json()
        received = Received("/v1/embeddings", headers, body)
        with self._change:
            self.requests.append(received)
        if not isinstance(body, dict) or "input" not in body:
            await answer.error(400, "input is missing", "invalid_request_error")
            return
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [
            {"object": "embedding", "index": index, "embedding": _vector(text, body)}
            for index, text in enumerate(inputs)
        ]
        count = sum(len(words_of(str(text))) for text in inputs)
        usage = {"prompt_tokens": count, "total_tokens": count}
        await answer.json({"object": "list", "model": body["model"], "data": data, "usage": usage})
        self._note(received, "answered")

    async def _rank(self, headers: dict[str, str], answer: "Answering") -> None:
        """As llama-server with `--rerank` does: best first. A text scores a point for each word of
        the query that it has."""
        body = await answer.read_json()
        received = Received("/v1/rerank", headers, body)
        with self._change:
            self.requests.append(received)
        wanted = {*body["query"].lower().split()}
        found = [wanted.intersection(text.lower().split()) for text in body["documents"]]
        scores = [float(len(words)) for words in found]
        ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
        results = [{"index": index, "relevance_score": scores[index]} for index in ranked]
        count = sum(len(words_of(body["query"] + " " + text)) for text in body["documents"])
        usage = {"prompt_tokens": count, "total_tokens": count}
        results = results[: body.get("top_n")]
        whole = {"model": body["model"], "object": "list", "usage": usage, "results": results}
        await answer.json(whole)
        self._note(received, "answered")

    async def _draw(self, headers: dict[str, str], answer: "Answering") -> None:
        """As servers of diffusion models do: PNGs of the requested size, here of one colour, which
        follows from prompt and seed."""
        body = await answer.read_json()
        received = Received("/v1/images/generations", headers, body)
        with self._change:
            self.requests.append(received)
        size = _SIZE.fullmatch(str(body.get("size") or "64x64"))
        count = body.get("n") or 1
        if size is None or not 0 < count <= MOST_IMAGES:
            await answer.error(400, "size or n is not valid", "invalid_request_error")
            return
        width, height = map(int, size.groups())
        data = [{"b64_json": _picture(body, index, width, height)} for index in range(count)]
        await answer.json({"created": CREATED, "data": data})
        self._note(received, "answered")

    async def _health(self, answer: "Answering") -> None:
        if self.loading:
            await answer.error(503, "Loading model", "unavailable_error")
        else:
            await answer.json({"status": "ok"})

    async def _metrics(self, answer: "Answering") -> None:
        text = (
            f"llamacpp:tokens_predicted_total {self.words_sent}\n"
            f"llamacpp:requests_processing {min(self.running, self.slots)}\n"
            f"llamacpp:requests_deferred {max(0, self.running - self.slots)}\n"
        )
        await answer.whole(200, text.encode(), {"content-type": "text/plain; version=0.0.4"})

    async def _slots(self, answer: "Answering") -> None:
        busy = self.running
        await answer.json([{"id": n, "is_processing": n < busy} for n in range(self.slots)])

    def _script(self, request: ChatRequest) -> Script:
        for rule in self._rules:
            if rule.fits(request):
                return rule.next_script()
        return Script(words_of(request.last_user_text))

    def _note_word(self, received: Received, piece: Piece) -> None:
        if piece.word:
            with self._change:
                received.words += 1
                self._change.notify_all()

    def _note(self, received: Received, outcome: Outcome) -> None:
        with self._change:
            received.outcome, received.ended = outcome, time.monotonic()
            self._change.notify_all()

    def _count(self, outcome: Outcome) -> int:
        return sum(request.outcome == outcome for request in self.requests)


async def _let_go(script: Script) -> None:
    """Wait until the test lets the script continue."""
    while script.held and not await asyncio.to_thread(script.held.wait, LOOK_SECONDS):
        pass  # A longer wait would keep its thread when the caller hangs up.


async def _lifespan(receive: Receive, send: Send) -> None:
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})


_PIECES: dict[str, Callable[[Script, ChatRequest, str], Iterator[Piece]]] = {
    "/v1/chat/completions": pieces,
    "/v1/completions": text_pieces,
}


def _request(body: Any) -> ChatRequest:
    """Parse a request of either endpoint: a plain prompt becomes a message of the user."""
    if isinstance(body, dict) and "prompt" in body:
        body = {**body, "messages": [{"role": "user", "content": str(body["prompt"])}]}
    return ChatRequest.model_validate(body)


def _usage(request: ChatRequest, completion: int) -> Json:
    prompt = sum(len(words_of(message.text)) for message in request.messages)
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "test"}


def _picture(body: Json, index: int, width: int, height: int) -> str:
    """A PNG in base64. Source of the format: PNG, third edition, sections 5 and 11."""
    seed = f"{body['prompt']}/{body.get('seed', 0)}/{index}".encode()
    line = b"\0" + hashlib.sha256(seed).digest()[:3] * width
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(line * height)), (b"IEND", b""))
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def _vector(text: Any, body: Json) -> list[float] | str:
    vector = [float(len(str(text))), 0.5]
    if body.get("encoding_format") == "base64":
        return base64.b64encode(struct.pack("<2f", *vector)).decode()
    return vector
