"""Which instances may answer a request, and in which order: what a body needs, who can.

Everything here is pure: facts in, decision out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
import orjson

from moe_gateway.errors import Refused, none_capable, none_healthy, unknown_model

AUTO: Final = "auto"
BYTES_PER_TOKEN: Final = 3
"""Low on purpose: a guess that is too high chooses an expert with more room, which is no harm."""
ROOM_FOR_ANSWER: Final = 128
"""Tokens."""
WORTH_KEEPING: Final = 1024
"""Bytes of a request. What is shorter is read anew in no time, wherever there is room."""
LEFT_ALONE: Final = "it failed again and again and is left alone for some seconds"


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
    def usable(self) -> bool:
        """Healthy, and not left alone for its failures."""

    @property
    def reason(self) -> str:
        """Why it is not usable."""

    @property
    def free(self) -> bool:
        """Whether it has a free slot."""

    @property
    def load(self) -> float:
        """Requests under way, per slot."""

    @property
    def first_byte(self) -> float:
        """Seconds that it lately took to its first byte."""

    @property
    def auto(self) -> bool:
        """Whether it may be chosen for `auto`."""

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
    affinity: bytes = b""
    """What requests have in common that begin alike: they go to the same instance, whose cache
    holds that beginning. Empty: no preference."""


@dataclass(frozen=True, slots=True)
class Route(Generic[C]):
    """Instances to try, in this order, and why; the reason is told to the caller."""

    order: list[C]
    reason: str


def choose(model: str, needs: Needs, instances: Sequence[C]) -> Route[C]:
    """The route of one request.

    Raises `Refused`: 404 for an unknown model, 503 when nobody is ready, 400 when no expert can.
    What `needs` demand counts for `auto` only: who names a model gets it.
    """
    if model == AUTO:
        return _automatic(needs, instances)
    named = [instance for instance in instances if model in instance.names]
    if not named:
        raise unknown_model(model, known_models(instances))
    reason = "asked by name" if named[0].expert in (None, model) else f"alias of {named[0].expert}"
    ready = _ready(model, named)
    ready.sort(key=_turn(needs, ready))
    return Route(ready, reason + _kept(needs, ready))


def known_models(instances: Sequence[Candidate]) -> list[str]:
    """Every name that a caller may ask for; `auto` first when there are experts."""
    names = dict.fromkeys(name for instance in instances for name in instance.names)
    experts = any(instance.expert is not None for instance in instances)
    return ([AUTO] if experts else []) + list(names)


def _automatic(needs: Needs, instances: Sequence[C]) -> Route[C]:
    """The cheapest expert that can, then the next: ties go to the one that was declared first."""
    experts = [one for one in instances if one.expert is not None and one.auto]
    able = [instance for instance in experts if _lacks(instance, needs) is None]
    if experts and not able:
        raise none_capable(_why_none(needs, experts))
    roomy = [instance for instance in able if _fits(instance, needs)]
    ready = _ready(AUTO, roomy or able)
    if not roomy:
        ready.sort(key=lambda instance: -(instance.context or 0))
        return Route(ready, f"auto: largest context, for about {needs.tokens} tokens")
    rank = {instance.expert: place for place, instance in reversed(list(enumerate(experts)))}
    turn = _turn(needs, ready)
    ready.sort(key=lambda instance: (instance.cost, rank[instance.expert], turn(instance)))
    count = len({instance.expert for instance in roomy})
    reason = "auto: the only one that can" if count == 1 else f"auto: cheapest of {count}"
    return Route(ready, reason + _kept(needs, ready))


def _ready(model: str, instances: Sequence[C]) -> list[C]:
    """Those that can be asked now."""
    ready = [instance for instance in instances if instance.usable]
    if not ready:
        raise none_healthy(model, {one.label: one.reason or LEFT_ALONE for one in instances})
    return ready


def _turn(needs: Needs, ready: Sequence[C]) -> Callable[[C], tuple[bool, bool, float, float]]:
    """Which instance of one expert comes first: one with room, among these the one that holds the
    beginning of this prompt in its cache, then the least busy, then the quickest."""
    homes = _homes(needs.affinity, ready)
    return lambda one: (not one.free, one.label not in homes, one.load, one.first_byte)


def _homes(affinity: bytes, ready: Sequence[C]) -> set[str]:
    """The instance of each expert where prompts with this beginning belong.

    Rendezvous hashing (Thaler and Ravishankar, 1998): without a table, each beginning has one home,
    and only those of an instance that goes away move.
    """
    if not affinity or len(ready) < 2:
        return set()
    best: dict[str | None, tuple[bytes, str]] = {}
    for one in ready:
        weight = blake2b(affinity + one.label.encode(), digest_size=8).digest()
        best[one.expert] = max(best.get(one.expert, (b"", "")), (weight, one.label))
    return {label for _, label in best.values()}


def _kept(needs: Needs, ready: Sequence[Candidate]) -> str:
    """Said in the reason when the choice followed the prompt's beginning."""
    kept = ready[0].label in _homes(needs.affinity, ready)
    return "; holds the beginning of the prompt" if kept else ""


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
    role: str = ""


class _Facts(msgspec.Struct):
    messages: list[_Turn] = []
    prompt: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    tool_choice: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_key: str | None = None

    def beginning(self, session: bytes, size: int) -> bytes:
        """What stays the same from turn to turn of one conversation: the caller's own key for it,
        its session, else the tools, the system's words and the first ones of the user. A hash of
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


def needs_of(
    body: bytes, kind: Literal["chat", "text", "embeddings"], session: bytes = b""
) -> Needs:
    """An estimate; what it does not understand it leaves to the server to judge.

    `session` is what the caller's headers call the conversation.
    """
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
        affinity=facts.beginning(session, len(body)),
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
