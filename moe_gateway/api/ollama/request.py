"""Requests of Ollama's API as the requests to `/v1` that ask the same.

Sources: `docs/api.md`, `docs/openapi.yaml` and `server/routes.go` of Ollama.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from moe_gateway.api.ollama.options import (
    format_of,
    logprobs_of,
    refuse,
    sampling_of,
    thinking_of,
)
from moe_gateway.api.ollama.turns import Turns, content_of, text_of
from moe_gateway.endpoints import Kind
from moe_gateway.errors import invalid_field
from moe_gateway.responses.tools import NOT_IN_A_HEADER

Json = dict[str, Any]

CHAT: Final = "/api/chat"
GENERATE: Final = "/api/generate"
EMBED: Final = "/api/embed"
EMBEDDINGS: Final = "/api/embeddings"

TARGETS: Final[dict[Kind, str]] = {
    "chat": "/v1/chat/completions",
    "text": "/v1/completions",
    "embeddings": "/v1/embeddings",
}

LATEST: Final = ":latest"
"""The tag of a name without a tag."""

READ: Final = frozenset(
    (
        *("model", "stream", "messages", "prompt", "system", "images", "suffix", "raw", "input"),
        *("options", "format", "think", "logprobs", "top_logprobs", "dimensions"),
    )
)
NO_EFFECT: Final = frozenset(("keep_alive", "truncate", "shift", "context", "template"))
"""How long a model stays loaded, and what is cut from a prompt that is too long, is decided by the
expert. `context` and `template` are refused unless they are empty."""

UNSUPPORTED: Final = {
    "_debug_render_only": "the expert renders the prompt, and does not show it",
    "width": "no image is made here",
    "height": "no image is made here",
    "steps": "no image is made here",
}
GENERATE_UNSUPPORTED: Final = {
    "template": "the expert renders the prompt with its model's own template",
    "context": "no answer gives one; send the earlier turns to /api/chat",
}
PLAIN_UNSUPPORTED: Final = {
    "images": "a raw prompt is text",
    "format": "a raw prompt is continued without a form",
    "think": "a raw prompt is continued without a template",
    "system": "write it into the raw prompt",
}


@dataclass(frozen=True)
class Request:
    """A parsed request.

    `body` is the request to the expert at `target`. `at_once` is the complete answer if no expert
    is needed: for an empty prompt, which loads a model in Ollama. `ignored` are the options without
    effect.
    """

    path: str
    model: str
    stream: bool
    kind: Kind
    body: Json
    at_once: Json | None = None
    ignored: tuple[str, ...] = ()
    dimensions: int | None = None

    @property
    def target(self) -> str:
        """Return the path of the request on the expert."""
        return TARGETS[self.kind]

    @property
    def notice(self) -> str:
        """Return what the caller has to know, for the route reason."""
        names = ", ".join(NOT_IN_A_HEADER.sub("?", name[:50]) for name in self.ignored)
        return f"; ignored options: {names}" if names else ""


def read_request(path: str, fields: Json, known: Collection[str]) -> Request:
    """Read a request to one of the four paths; `known` are the names of the models.

    Raises `Refused` (400).
    """
    refuse(fields, UNSUPPORTED)
    name = fields.get("model")
    if not isinstance(name, str) or not name:
        raise invalid_field("model", "the name of a model")
    model = name.removesuffix(LATEST) if name not in known else name
    sampling, ignored = sampling_of(fields.get("options"))
    rest = {key: value for key, value in fields.items() if key not in READ | NO_EFFECT}
    body = rest | {"model": model}
    if path in (EMBED, EMBEDDINGS):
        return _embedding(path, name, fields, body)
    body |= sampling
    stream = fields.get("stream") is not False
    body |= {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    read = _READERS[path]
    kind, question = read(fields)
    at_once = None if question else _loaded(path, name, fields)
    return Request(path, name, stream, kind, body | question, at_once, tuple(ignored))


def _chat(fields: Json) -> tuple[Kind, Json]:
    """Convert a chat; without messages, no expert is needed."""
    given = fields.get("messages")
    if given is not None and not isinstance(given, list):
        raise invalid_field("messages", "a list of messages")
    if not given:
        return "chat", {}
    turns = Turns()
    for n, turn in enumerate(given):
        turns.add(turn, f"messages[{n}]")
    return "chat", _form(fields) | {"messages": turns.messages}


def _generate(fields: Json) -> tuple[Kind, Json]:
    """Convert a prompt; without one, no expert is needed. A raw prompt, and one with a suffix,
    is continued unchanged; any other becomes a chat, so that the model's template is used."""
    refuse(fields, GENERATE_UNSUPPORTED)
    prompt, suffix = text_of(fields, "prompt"), text_of(fields, "suffix")
    if not prompt and not fields.get("images"):
        return "chat", {}
    if fields.get("raw") or suffix:
        refuse(fields, PLAIN_UNSUPPORTED)
        return "text", {"prompt": prompt} | ({"suffix": suffix} if suffix else {})
    system = text_of(fields, "system")
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": content_of(fields, "", "prompt")})
    return "chat", _form(fields) | {"messages": messages}


_READERS: Final[dict[str, Callable[[Json], tuple[Kind, Json]]]] = {
    CHAT: _chat,
    GENERATE: _generate,
}


def _form(fields: Json) -> Json:
    form = format_of(fields.get("format")) | thinking_of(fields.get("think"))
    return form | logprobs_of(fields)


def _embedding(path: str, name: str, fields: Json, body: Json) -> Request:
    given = fields.get("prompt" if path == EMBEDDINGS else "input")
    texts = [given] if isinstance(given, str) else given or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid_field("prompt" if path == EMBEDDINGS else "input", "text or a list of texts")
    size = fields.get("dimensions")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise invalid_field("dimensions", "a number of dimensions")
    body |= {"input": texts, "encoding_format": "float"} | ({"dimensions": size} if size else {})
    empty: Json | None = None
    if not any(texts):
        empty = {"embedding": []} if path == EMBEDDINGS else {"model": name, "embeddings": []}
    return Request(
        path,
        name,
        stream=False,
        kind="embeddings",
        body=body,
        at_once=empty,
        dimensions=size or None,
    )


def _loaded(path: str, name: str, fields: Json) -> Json:
    """Return the answer to an empty prompt; the caller adds the time."""
    unloads = fields.get("keep_alive") in (0, "0", "0s")
    answer = {"message": {"role": "assistant", "content": ""}} if path == CHAT else {"response": ""}
    return {"model": name, **answer, "done": True, "done_reason": "unload" if unloads else "load"}
