"""Which instances may answer a request, and in which order: what a body needs, who can.

Everything here is pure: facts in, decision out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
import orjson

from moe_gateway.errors import Refused, none_capable, none_healthy, unknown_model

AUTO: Final = "auto"
BYTES_PER_TOKEN: Final = 3
"""Low on purpose: a guess that is too high chooses an expert with more room, which is no harm."""
ROOM_FOR_ANSWER: Final = 128
"""Tokens."""


class Candidate(Protocol):
    """What routing knows of an instance."""

    @property
    def label(self) -> str: ...
    @property
    def expert(self) -> str | None:
        """None: it tells its models itself, and is never part of `auto`."""

    @property
    def names(self) -> Sequence[str]:
        """The models that callers may ask it for."""

    @property
    def healthy(self) -> bool: ...
    @property
    def reason(self) -> str:
        """Why it is not healthy."""

    @property
    def load(self) -> float:
        """Requests under way, per slot."""

    @property
    def cost(self) -> float: ...
    @property
    def context(self) -> int | None: ...
    @property
    def tools(self) -> str: ...
    @property
    def vision(self) -> bool: ...
    @property
    def embeddings(self) -> bool: ...


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True, slots=True)
class Needs:
    """What an answer to one request takes; `tokens` is an estimate of the prompt."""

    tokens: int = 0
    tools: bool = False
    vision: bool = False
    embeddings: bool = False


@dataclass(frozen=True, slots=True)
class Route(Generic[C]):
    """Instances to try, in this order, and why; the reason is told to the caller."""

    order: list[C]
    reason: str


def choose(model: str, needs: Needs, instances: Sequence[C]) -> Route[C]:
    """The route of one request.

    Raises `Refused`: 404 for an unknown model, 503 when nobody is ready, 400 when no expert can.
    `needs` count for `auto` only: who names a model gets it.
    """
    if model == AUTO:
        return _automatic(needs, instances)
    named = [instance for instance in instances if model in instance.names]
    if not named:
        raise unknown_model(model, known_models(instances))
    reason = "asked by name" if named[0].expert in (None, model) else f"alias of {named[0].expert}"
    return Route(_ready(model, named), reason)


def known_models(instances: Sequence[Candidate]) -> list[str]:
    """Every name that a caller may ask for; `auto` first when there are experts."""
    names = dict.fromkeys(name for instance in instances for name in instance.names)
    experts = any(instance.expert is not None for instance in instances)
    return ([AUTO] if experts else []) + list(names)


def _automatic(needs: Needs, instances: Sequence[C]) -> Route[C]:
    """The cheapest expert that can, then the next: ties go to the one that was declared first."""
    experts = [instance for instance in instances if instance.expert is not None]
    able = [instance for instance in experts if _lacks(instance, needs) is None]
    if experts and not able:
        raise none_capable(_why_none(needs, experts))
    roomy = [instance for instance in able if _fits(instance, needs)]
    ready = _ready(AUTO, roomy or able)
    if not roomy:
        ready.sort(key=lambda instance: -(instance.context or 0))
        return Route(ready, f"auto: largest context, for about {needs.tokens} tokens")
    rank = {instance.expert: place for place, instance in reversed(list(enumerate(experts)))}
    ready.sort(key=lambda instance: (instance.cost, rank[instance.expert], instance.load))
    count = len({instance.expert for instance in roomy})
    return Route(
        ready, "auto: the only one that can" if count == 1 else f"auto: cheapest of {count}"
    )


def _ready(model: str, instances: Sequence[C]) -> list[C]:
    """The healthy ones, least busy first."""
    ready = [instance for instance in instances if instance.healthy]
    if not ready:
        raise none_healthy(model, {instance.label: instance.reason for instance in instances})
    if len(ready) > 1:
        ready.sort(key=lambda instance: instance.load)
    return ready


def _fits(instance: Candidate, needs: Needs) -> bool:
    return instance.context is None or needs.tokens + ROOM_FOR_ANSWER <= instance.context


def _lacks(instance: Candidate, needs: Needs) -> str | None:
    """What the instance cannot do at all."""
    if needs.tools and instance.tools == "none":
        return "tools"
    if needs.vision and not instance.vision:
        return "pictures"
    if needs.embeddings and not instance.embeddings:
        return "embeddings"
    return None


def _why_none(needs: Needs, experts: Sequence[Candidate]) -> str:
    lacks = dict.fromkeys(f"{expert.expert} takes no {_lacks(expert, needs)}" for expert in experts)
    return ", ".join(lacks)


# What the body of a request says.


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Look(msgspec.Struct):
    """The part of every request that the gateway reads."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Turn(msgspec.Struct):
    content: str | list[_Part] | None = None


class _Facts(msgspec.Struct):
    messages: list[_Turn] = []
    prompt: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    tool_choice: msgspec.Raw = msgspec.Raw(b"")


_LOOK = msgspec.json.Decoder(Look)
_FACTS = msgspec.json.Decoder(_Facts)
_SHALLOW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING = (b"", b"null", b"[]")


def look_at(body: bytes) -> Look:
    """Raises `Refused` (400) when the body is no JSON object or these fields do not fit."""
    try:
        return _LOOK.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        param = place.rstrip("`") or ("model" if "`model`" in message else None)
        raise Refused(400, None, f"The request does not fit: {error}.", param=param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, "invalid_json", f"The request is no valid JSON: {error}.") from error


def needs_of(body: bytes, kind: Literal["chat", "text", "embeddings"]) -> Needs:
    """An estimate; what it does not understand it leaves to the server to judge."""
    if kind == "embeddings":
        return Needs(embeddings=True)
    try:
        facts = _FACTS.decode(body)
    except msgspec.DecodeError:
        return Needs(tokens=len(body) // BYTES_PER_TOKEN)
    parts = [
        part for turn in facts.messages if isinstance(turn.content, list) for part in turn.content
    ]
    texts = [turn.content for turn in facts.messages if isinstance(turn.content, str)]
    size = sum(len(text.encode()) for text in (*texts, *(part.text for part in parts)))
    return Needs(
        tokens=(size + len(bytes(facts.prompt)) + len(bytes(facts.tools))) // BYTES_PER_TOKEN,
        tools=bytes(facts.tools) not in _NOTHING and bytes(facts.tool_choice) != b'"none"',
        vision=any(part.type == "image_url" for part in parts),
    )


def changed(body: bytes, **fields: Any) -> bytes:
    """The same object with these fields set; every other value keeps its very bytes.

    `stream_options` is added to the one that is there.
    """
    whole = _SHALLOW.decode(body)
    options = whole.get("stream_options")
    if "stream_options" in fields and options is not None and bytes(options) != b"null":
        fields["stream_options"] = orjson.loads(bytes(options)) | fields["stream_options"]
    whole.update({name: msgspec.Raw(orjson.dumps(value)) for name, value in fields.items()})
    return msgspec.json.encode(whole)
