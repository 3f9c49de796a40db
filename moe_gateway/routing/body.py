"""Read properties of a request body without building it up, and change single fields."""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
import orjson

from hearth.service.http_errors import Refused, invalid_json
from moe_gateway.endpoints import Kind
from moe_gateway.errors import nested_too_deeply, unsupported_field
from moe_gateway.routing.language import languages_of, primary

BYTES_PER_TOKEN: Final = 3
"""Intentionally low: an overestimate only selects an expert with a larger context."""
WORTH_KEEPING: Final = 1024
"""Minimum size in bytes of a prompt for cache affinity: a shorter one is processed quickly
anywhere."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Properties of a request from its headers; empty if absent."""

    session: bytes = b""
    """The client's id of the conversation."""
    domain: str = ""
    language: str = ""


NO_HINTS: Final = Hints()


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a request; `tokens` is an estimate of the prompt."""

    tokens: int = 0
    tools: bool = False
    vision: bool = False
    embeddings: bool = False
    rerank: bool = False
    images: bool = False
    structured: bool = False
    """It must hold to a JSON schema."""
    languages: tuple[str, ...] = ()
    """One of these languages, such as `de`; empty: any."""
    domain: str = ""
    """The subject, such as `code`; empty: none."""
    affinity: bytes = b""
    """Hash of the prompt's prefix: requests with the same prefix go to the same instance, whose
    cache contains it. Empty: no preference."""

    @property
    def talks(self) -> bool:
        """Whether it is for a model that chats."""
        return not (self.embeddings or self.rerank or self.images)


NO_MESSAGE: Final = 12
"""Bytes that are too few for one."""

MARKS: Final = {
    b"\xef\xbb\xbf": "it begins with a byte order mark",
    b"\xff\xfe": "it is UTF-16, not UTF-8",
    b"\xfe\xff": "it is UTF-16, not UTF-8",
}

HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""One of the two escapes by which JSON writes a sign such as an emoji."""

_ABSENT: Final = msgspec.Raw(b"null")

_PROMPTS: Final = re.compile(rb'\s*\[\s*["[]')
"""Texts or lists of tokens; one list of tokens is one prompt."""


_NOT_SENT: Final = (_ABSENT,) * 4
_NOTHING: Final = (b"", b"null", b"[]")

UNSUPPORTED: Final = {
    "functions": "send `tools` instead",
    "function_call": "send `tool_choice` instead",
    "web_search_options": "no model here searches the web by itself; give it a tool",
    "moderation": "no model here judges what it is asked",
}
"""Fields of a chat that OpenAI defines, and what to do without them."""

Limit = Annotated[int, msgspec.Meta(ge=0)] | Annotated[float, msgspec.Meta(ge=0)]
"""A count that some clients write as `100.0`."""
_FIELD_CODES: Final = {
    "Object missing required field": "missing_required_parameter",
    "Expected `int` >=": "integer_below_min_value",
    "Expected `float` >=": "decimal_below_min_value",
}
"""How msgspec words an error, and OpenAI's code for it; `invalid_type` for all others."""


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Look(msgspec.Struct):
    """The part of every request that the gateway reads."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    tool_choice: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    function_call: msgspec.Raw = _ABSENT
    web_search_options: msgspec.Raw = _ABSENT
    moderation: msgspec.Raw = _ABSENT

    def refuse_unsupported(self) -> None:
        """Raise `Refused` (400) for a field of OpenAI's API that no server here supports: it
        would be ignored silently."""
        values = self.functions, self.function_call, self.web_search_options, self.moderation
        if values == _NOT_SENT:
            return
        for name, value in zip(UNSUPPORTED, values, strict=True):
            if bytes(value) not in (*_NOTHING, b'"auto"', b'"none"'):
                raise unsupported_field(name, UNSUPPORTED[name])

    @property
    def forces_tool(self) -> bool:
        """Whether the answer has to be a call of a tool."""
        if self.tool_choice is _ABSENT:
            return False
        choice = bytes(self.tool_choice)
        if not choice.startswith(b"{"):
            return choice == b'"required"'
        return b'"allowed_tools"' not in choice or b'"required"' in choice

    @property
    def names_tools(self) -> bool:
        """Whether `tool_choice` restricts the functions that may be called."""
        return self.tool_choice is not _ABSENT and bytes(self.tool_choice).startswith(b"{")

    @property
    def says_nothing(self) -> bool:
        """Whether it is a conversation without a message."""
        told = memoryview(self.messages)
        return len(told) < NO_MESSAGE and orjson.loads(told) == []

    @property
    def several(self) -> int:
        """The number of answers for each prompt if more than one answer is requested; else 0."""
        if self.n is None and self.prompt is _ABSENT:
            return 0
        if self.n is not None and self.n > 1:
            return self.n
        return 1 if _PROMPTS.match(self.prompt) else 0

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


class _Turn(msgspec.Struct):
    content: str | list[_Part] | None = None
    role: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"")

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _Format(msgspec.Struct):
    type: str | None = None


class _Facts(msgspec.Struct):
    messages: list[_Turn] = []
    prompt: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    tool_choice: msgspec.Raw = msgspec.Raw(b"")
    response_format: _Format | None = None
    metadata: dict[str, Any] | None = None
    prompt_cache_key: str | None = None

    def beginning(self, session: bytes, size: int) -> bytes:
        """Return the data that is constant in all turns of a conversation: the caller's cache
        key, its session, else tools, system message and the first message of the user. A hash of
        all messages would change with each turn."""
        if self.prompt_cache_key:
            return self.prompt_cache_key.encode()
        if session or not self.messages or size < WORTH_KEEPING:
            return session
        hashed = blake2b(bytes(self.tools), digest_size=16)
        for turn in self.messages:
            hashed.update(msgspec.json.encode(turn))
            if turn.role == "user":
                break
        return hashed.digest()

    def told(self, name: str) -> str:
        """Return a text of the caller's `metadata`; empty if absent."""
        value = (self.metadata or {}).get(name)
        return value if isinstance(value, str) else ""

    @property
    def first_words(self) -> str:
        """Of the user: what a conversation is about, the same in each of its turns."""
        return next((turn.text for turn in self.messages if turn.role == "user"), "")


_LOOK = msgspec.json.Decoder(Look)
_FACTS = msgspec.json.Decoder(_Facts)
_SHALLOW = msgspec.json.Decoder(dict[str, msgspec.Raw])


def look_at(body: bytes) -> Look:
    """Parse a body. Raises `Refused` (400) if it is not a JSON object or a field has a wrong
    type."""
    try:
        if not body.isascii():
            body.decode()  # JSON is UTF-8 (RFC 8259, section 8.1), also in unread fields.
        return _LOOK.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        param = place.rstrip("`") or ("model" if "`model`" in message else None)
        code = next((c for words, c in _FIELD_CODES.items() if message.startswith(words)), None)
        message = f"The request is not valid: {error}."
        raise Refused(400, code or "invalid_type", message, param=param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid_json(_why(body, str(error).rstrip("."))) from error


def _why(body: bytes, reason: str) -> str:
    """Describe why a body is not valid JSON. Recognises marks that Windows shells add, and texts
    cut in the middle of a character."""
    if re.search("surrogate|hex escape|truncated", reason) and HALF.search(body):
        reason = f"a text in it is cut in the middle of a sign, such as an emoji ({reason})"
    return next((words for mark, words in MARKS.items() if body.startswith(mark)), reason)


def needs_of(body: bytes, kind: Kind, hints: Hints = NO_HINTS) -> Needs:
    """An estimate; what it does not understand it leaves to the server to judge."""
    if kind == "embeddings":
        return Needs(embeddings=True)
    if kind == "rerank":
        return Needs(rerank=True)
    if kind == "images":
        return Needs(images=True)
    try:
        facts = _FACTS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return Needs(tokens=len(body) // BYTES_PER_TOKEN)
    parts = [
        part for turn in facts.messages if isinstance(turn.content, list) for part in turn.content
    ]
    size = sum(len(turn.text.encode()) + len(bytes(turn.tool_calls)) for turn in facts.messages)
    wanted = facts.response_format.type if facts.response_format else ""
    told = hints.language or facts.told("language")
    return Needs(
        tokens=(size + len(bytes(facts.prompt)) + len(bytes(facts.tools))) // BYTES_PER_TOKEN,
        tools=bytes(facts.tools) not in _NOTHING and bytes(facts.tool_choice) != b'"none"',
        vision=any(part.type == "image_url" for part in parts),
        structured=wanted in ("json_object", "json_schema"),
        languages=(primary(told),) if told else languages_of(facts.first_words),
        domain=hints.domain or facts.told("domain"),
        affinity=facts.beginning(hints.session, len(body)),
    )


class _Documents(msgspec.Struct):
    query: str
    documents: Annotated[list[str], msgspec.Meta(min_length=1)]


_DOCUMENTS: Final = msgspec.json.Decoder(_Documents)


def check_documents(body: bytes) -> None:
    """Check that the body is a request to rank texts. Raises `Refused` (400)."""
    try:
        _DOCUMENTS.decode(body)
    except msgspec.ValidationError as error:
        param = "query" if "query" in str(error) else "documents"
        message = f"The request is not valid: {error}."
        raise Refused(400, "invalid_type", message, param=param) from error


def first_words(body: bytes) -> str:
    """The first words of the user; empty when there are none."""
    try:
        return _FACTS.decode(body).first_words
    except (msgspec.DecodeError, RecursionError):
        return ""


def changed(body: bytes, **fields: Any) -> bytes:
    """The same object with these fields set; every other value keeps its very bytes.

    `stream_options` is added to the one that is there. Raises `Refused` (400).
    """
    try:
        whole = _SHALLOW.decode(body)
    except RecursionError as error:
        raise nested_too_deeply() from error
    options = whole.get("stream_options")
    if "stream_options" in fields and options is not None and bytes(options) != b"null":
        fields["stream_options"] = orjson.loads(bytes(options)) | fields["stream_options"]
    whole.update({name: msgspec.Raw(orjson.dumps(value)) for name, value in fields.items()})
    return msgspec.json.encode(whole)
