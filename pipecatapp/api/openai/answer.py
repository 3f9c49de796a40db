"""A run as the answer of a chat completion: its text as it comes, its end, its tokens."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hearth.openai_api.errors import error_event
from hearth.openai_api.sse import DONE, sse_event
from pipecatapp.api.errors import Refused, error_type
from pipecatapp.runs import question_text
from pipecatapp.tools.model.behalf import CALLER
from pipecatapp.workflow import Delta, Engine, Event, Listener, RunResult

RUN_HEADER = "x-hearth-run"
NO_RETRY = {"x-should-retry": "false"}
"""Official clients repeat a request after a 5xx; a run is not to be started three times."""


@dataclass
class Answer:
    """The answer of one run to one caller."""

    engine: Engine
    run: str
    model: str
    listener: Listener
    behalf: str | None = None
    """On whose behalf the run asks models, as the gateway has told."""
    created: int = field(default_factory=lambda: int(time.time()))
    asked: Event | None = None
    """The question that ended the answer; the run goes on when a person has answered it."""

    @property
    def headers(self) -> dict[str, str]:
        """`CALLER` says that the tokens of the run are counted where its models are asked."""
        told = {CALLER: self.behalf} if self.behalf else {}
        return {RUN_HEADER: self.run} | told

    async def whole(self) -> dict[str, Any]:
        """The body of an answer that is not streamed; `Refused` when the run failed."""
        async for item in self.listener:
            if self._asks(item):
                break
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": await self._content()},
            "finish_reason": await self._finish(),
            "logprobs": None,
        }
        return self._frame("chat.completion", [choice]) | {"usage": self._usage()}

    async def opened(self, *, include_usage: bool) -> AsyncIterator[bytes]:
        """Wait until the run says its first words or ends, then give the stream to send.

        `Refused` when it failed before: the caller still gets an HTTP status.
        """
        pieces = self._pieces()
        first = await anext(pieces, None)
        return self._stream(first, pieces, include_usage=include_usage)

    async def _stream(
        self, first: str | None, pieces: AsyncIterator[str], *, include_usage: bool
    ) -> AsyncIterator[bytes]:
        yield self._chunk({"role": "assistant", "content": first or ""})
        try:
            async for text in pieces:
                yield self._chunk({"content": text})
        except Refused as error:
            yield error_event(error.message, type=error_type(error.status), code=error.code)
            return
        yield self._chunk({}, finish=await self._finish())
        if include_usage:
            frame = self._frame("chat.completion.chunk", [])
            yield sse_event(frame | {"usage": self._usage()})
        yield sse_event(DONE)

    async def _pieces(self) -> AsyncIterator[str]:
        """The run's text as it comes; all of it at the end when no node streamed."""
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
            message = f"The run failed: {result.error}"
            raise Refused(502, "run_failed", message, headers=NO_RETRY | self.headers)
        if result.status == "cancelled":
            message = "The run was cancelled."
            raise Refused(503, "run_cancelled", message, headers=NO_RETRY | self.headers)
        return str(result.outputs["text"] or "")

    def _usage(self) -> dict[str, int]:
        """What all models of the run read and wrote."""
        tokens = self.engine.run(self.run).tokens
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
        }

    def _chunk(self, delta: dict[str, Any], *, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return sse_event(self._frame("chat.completion.chunk", [choice]))

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.run}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def finish_reason(result: RunResult) -> str:
    """What the workflow says in its output of that name, as far as OpenAI's clients know it.

    A run has made its calls of tools itself, so it never ends with them.
    """
    return "length" if result.outputs.get("finish_reason") == "length" else "stop"
