"""A run as the answer of a chat completion: its text as it arrives, its end, its tokens."""

import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hearth.openai_api.sse import DONE, sse_event
from hearth.service.http_errors import Refused
from pipecatapp.application.callers import CALLER
from pipecatapp.application.engine import Delta, Engine, Event, Listener, RunResult
from pipecatapp.application.runs import question_text

RUN_HEADER = "x-hearth-run"
IGNORED_HEADER = "x-hearth-ignored"
NO_RETRY = {"x-should-retry": "false"}
"""Official clients repeat a request after a 5xx; a run is not to be started three times."""


@dataclass
class Answer:
    """The answer of one run to one caller, as a chat completion."""

    kind: ClassVar[str] = "chat.completion"
    chunk_kind: ClassVar[str] = "chat.completion.chunk"
    id_prefix: ClassVar[str] = "chatcmpl"

    engine: Engine
    run: str
    model: str
    listener: Listener
    behalf: str | None = None
    """The caller for whom the run calls models, as received from the gateway."""
    ignored: Collection[str] = ()
    """Fields of the request that its workflow does not take, and that only ask for a manner."""
    has_media: bool = False
    """Whether the request has images, sound or files."""
    created: int = field(default_factory=lambda: int(time.time()))
    asked: Event | None = None
    """The question that ended the answer; the run continues after a person has answered it."""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers; `CALLER` states that tokens are counted at the run's model calls."""
        told = {CALLER: self.behalf} if self.behalf else {}
        ignored = {IGNORED_HEADER: ", ".join(self.ignored)} if self.ignored else {}
        return {RUN_HEADER: self.run} | told | ignored

    async def whole(self) -> dict[str, Any]:
        """The body of an answer that is not streamed; `Refused` when the run failed."""
        async for item in self.listener:
            if self._asks(item):
                break
        choice = self._choice(await self._content(), finish=await self._finish())
        return self._frame(self.kind, [choice]) | {"usage": self._usage()}

    async def opened(self, *, include_usage: bool) -> AsyncIterator[bytes]:
        """Wait until the run sends its first text or ends, then return the stream.

        Raises `Refused` if it failed before: the caller still gets an HTTP status.
        """
        pieces = self._pieces()
        first = await anext(pieces, None)
        return self._stream(first, pieces, include_usage=include_usage)

    async def _stream(
        self, first: str | None, pieces: AsyncIterator[str], *, include_usage: bool
    ) -> AsyncIterator[bytes]:
        yield self._chunk(first or "", first=True)
        try:
            async for text in pieces:
                yield self._chunk(text)
        except Refused as error:
            yield sse_event(error.body())
            return
        yield self._chunk("", finish=await self._finish())
        if include_usage:
            frame = self._frame(self.chunk_kind, [])
            yield sse_event(frame | {"usage": self._usage()})
        yield sse_event(DONE)

    async def _pieces(self) -> AsyncIterator[str]:
        """Yield the run's text as it arrives; all of it at the end if no node streamed."""
        said = False
        async for item in self.listener:
            if isinstance(item, Delta):
                said = True
                yield item.text
            elif self._asks(item):
                break
        text = await self._content()
        if text and (self.asked or not said):
            yield f"\n\n{text}" if said else text

    def _asks(self, item: Delta | Event) -> bool:
        """Whether the run waits for a person now; a chat is not the place to wait for days."""
        if isinstance(item, Event) and item.type == "node.waiting":
            self.asked = item
        return self.asked is not None

    async def _content(self) -> str:
        if self.asked is None:
            return self._text(await self.engine.wait(self.run))
        return question_text(self.run, self.asked)

    async def _finish(self) -> str:
        return "stop" if self.asked else finish_reason(await self.engine.wait(self.run))

    def _text(self, result: RunResult) -> str:
        if result.status == "failed":
            self._refuse_as_the_model_did(str(result.error))
            message = f"The run failed: {result.error}"
            raise Refused(502, "run_failed", message, headers=NO_RETRY | self.headers)
        if result.status == "cancelled":
            message = "The run was cancelled."
            raise Refused(503, "run_cancelled", message, headers=NO_RETRY | self.headers)
        return str(result.outputs["text"] or "")

    def _refuse_as_the_model_did(self, reason: str) -> None:
        """Raises `Refused` (400) where the run failed because of what the caller sent: more tokens
        than the model's context holds, or an image that it cannot read."""
        steps = self.engine.run(self.run).steps
        failed = [step.facts["refused"] for step in steps if "refused" in step.facts]
        for error in failed:
            message, code = error["message"], error["code"]
            own = code == "context_length_exceeded" or self.has_media
            if own and message in reason:
                headers = NO_RETRY | self.headers
                raise Refused(400, code, message, param=error["param"], headers=headers)

    def _usage(self) -> dict[str, int]:
        """Return the sum of the tokens of all model calls of the run."""
        tokens = self.engine.summary(self.run).tokens
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
        }

    def _chunk(self, text: str, *, first: bool = False, finish: str | None = None) -> bytes:
        choice = self._piece(text, first=first, finish=finish)
        return sse_event(self._frame(self.chunk_kind, [choice]))

    def _choice(self, text: str, *, finish: str) -> dict[str, Any]:
        """The one choice of a whole answer."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}

    def _piece(self, text: str, *, first: bool, finish: str | None) -> dict[str, Any]:
        """The one choice of a chunk; the `first` one has the role, the last one no text."""
        delta = {"role": "assistant"} if first else {}
        if finish is None:
            delta["content"] = text
        return {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"{self.id_prefix}-{self.run}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


class TextAnswer(Answer):
    """The same as a completion of a text."""

    kind = chunk_kind = "text_completion"
    id_prefix = "cmpl"

    def _choice(self, text: str, *, finish: str) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}

    def _piece(self, text: str, *, first: bool, finish: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}


def finish_reason(result: RunResult) -> str:
    """Return the workflow's output `finish_reason` if OpenAI's clients know its value.

    A run has made its calls of tools itself, so it never ends with them.
    """
    return "length" if result.outputs.get("finish_reason") == "length" else "stop"
