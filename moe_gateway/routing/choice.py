"""The route of one request. Pure: facts in, decision out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

from moe_gateway.errors import (
    cannot_call_tools,
    cannot_draw,
    cannot_rank,
    no_speech,
    none_capable,
    none_healthy,
    unknown_model,
)
from moe_gateway.routing.body import Needs
from moe_gateway.routing.language import primary
from moe_gateway.settings import AUTO

ROOM_FOR_ANSWER: Final = 128
"""Tokens."""
KEPT: Final = "; holds the beginning of the prompt"
LEFT_ALONE: Final = "it failed again and again and is left alone for some seconds"


class Candidate(Protocol):
    """The properties of an instance that routing uses."""

    @property
    def label(self) -> str: ...
    @property
    def expert(self) -> str | None:
        """None: it lists its models itself, and is never part of `auto`."""

    @property
    def speech(self) -> str | None:
        """`stt` or `tts`: it serves only audio requests."""

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
    def turn(self) -> tuple[bool, float, float]:
        """Whether it has no free slot, its load, and its recent seconds to the first byte: the
        instance with the least value is tried first."""

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
    def chat(self) -> bool:
        """Whether it talks; an expert for vectors alone does not."""

    @property
    def embeddings(self) -> bool: ...
    @property
    def rerank(self) -> bool:
        """Whether it ranks texts by how well they fit a question."""

    @property
    def images(self) -> bool:
        """Whether it makes images."""

    @property
    def structured(self) -> bool: ...
    @property
    def languages(self) -> Collection[str]:
        """Empty: any."""

    @property
    def domains(self) -> Collection[str]:
        """Subjects for which it is made; empty: any."""

    @property
    def fallback(self) -> Sequence[str]:
        """Experts that answer instead if none of its instances can."""


C = TypeVar("C", bound=Candidate)
_TURN: Final = attrgetter("turn")


@dataclass(slots=True)
class Route(Generic[C]):
    """Instances to try, in this order, and the reason, which the caller receives.

    `spare` are instances of the declared fallbacks, used only if none in `order` can answer. `home`
    is the instance that caches the prefix of the prompt, if it is the first choice.
    """

    order: Sequence[C]
    reason: str
    spare: Sequence[C] = ()
    home: C | None = None

    def reason_for(self, chosen: C, tried: Collection[str]) -> str:
        """Return the reason why this instance is not the first choice: others were `tried`
        before, or have no free slot."""
        reason = self.reason if chosen is self.home else self.reason.removesuffix(KEPT)
        if chosen not in self.order:
            return f"{reason}; its fallback {chosen.expert}"
        before = takewhile(lambda one: one is not chosen, self.order)
        busy = dict.fromkeys(one.expert for one in before if one.label not in tried)
        busy.pop(chosen.expert, None)
        return reason + "".join(f"; {expert} is busy" for expert in busy)


def choose(model: str, needs: Needs, instances: Sequence[C]) -> Route[C]:
    """Return the route of one request.

    Raises `Refused`: 404 for an unknown model, 503 if no instance is ready, 400 if no expert can
    answer. `needs` are required for `auto` and for fallbacks only: a named model is used in any
    case.
    """
    if model == AUTO:
        return _automatic(needs, instances)
    return choose_named(model, having(model, instances), needs, instances)


def having(model: str, instances: Sequence[C]) -> list[C]:
    """Return the instances that serve text under this name."""
    return [one for one in instances if model in one.names and one.speech is None]


def able_for_auto(needs: Needs, instances: Sequence[C]) -> list[C]:
    """Return the instances that may be selected for `auto` and can answer, ready or not."""
    experts = [one for one in instances if one.expert is not None and one.auto]
    return [one for one in experts if lack_of(one, needs) is None]


def able_to_call(model: str, named: Sequence[C]) -> list[C]:
    """Those whose model has a template for tools, for a request that forces a call.

    Raises `Refused` (400) when there is none: such a model would answer in prose.
    """
    able = [one for one in named if one.tools != "none"]
    if named and not able:
        raise cannot_call_tools(model)
    return able


def able_to_rank(model: str, named: Sequence[C]) -> list[C]:
    """Those that rank texts. Raises `Refused` (400) when there is none."""
    able = [one for one in named if one.rerank]
    if named and not able:
        raise cannot_rank(model)
    return able


def able_to_draw(model: str, named: Sequence[C]) -> list[C]:
    """Those that make images. Raises `Refused` (400) when there is none."""
    able = [one for one in named if one.images]
    if named and not able:
        raise cannot_draw(model)
    return able


def choose_named(model: str, named: Sequence[C], needs: Needs, instances: Sequence[C]) -> Route[C]:
    """Return the route of a request that names a model; `named` are the instances that have it."""
    if not named:
        raise unknown_model(model, known_models(instances))
    reason = "asked by name" if named[0].expert in (None, model) else f"alias of {named[0].expert}"
    spare = _spare(named[0].fallback, needs, instances) if named[0].fallback else ()
    ready = _ready(model, named, needed=not spare)
    if len(ready) > 1:
        ready.sort(key=_turn(needs, ready))
    if not ready:
        reason += f"; {named[0].expert} is not ready"
    home = _home(needs, ready) if needs.affinity else None
    return Route(ready, reason + KEPT if home else reason, spare, home)


def choose_speech(kind: str, model: str, instances: Sequence[C]) -> Route[C]:
    """Return the route of an audio request; `kind` is stt or tts.

    `auto` and OpenAI's model names select any engine: an installation has one speech service, and
    clients send these names by default. Raises `Refused` (404, 503).
    """
    able = [one for one in instances if one.speech == kind]
    if not able:
        raise no_speech(kind)
    named = [one for one in able if model in one.names]
    if not named and model != AUTO and model not in OPENAI_SPEECH[kind]:
        raise unknown_model(model, (AUTO, *known_models(able)))
    ready = _ready(model, named or able)
    ready.sort(key=_turn(Needs(), ready))
    return Route(ready, "asked by name" if named else f"speech: the house's {kind}")


OPENAI_SPEECH: Final = {
    "stt": frozenset(
        ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-4o-transcribe-diarize")
    ),
    "tts": frozenset(("tts-1", "tts-1-hd", "gpt-4o-mini-tts")),
}
"""Model names that some clients send and cannot change."""


def known_models(instances: Sequence[Candidate]) -> list[str]:
    """Return all names that a caller may request; `auto` first if there are experts to select."""
    names = dict.fromkeys(name for instance in instances for name in instance.names)
    experts = any(instance.expert is not None and instance.auto for instance in instances)
    return ([AUTO] if experts else []) + list(names)


def _automatic(needs: Needs, instances: Sequence[C]) -> Route[C]:
    """Return the experts that can answer, the cheapest first; equal ones in the order of their
    declaration. Experts for the domain of the request come before those for any domain."""
    experts = [one for one in instances if one.expert is not None and one.auto]
    able = able_for_auto(needs, instances)
    if experts and not able:
        raise none_capable(_why_none(needs, experts))
    roomy = [instance for instance in able if _fits(instance, needs)]
    ready = _ready(AUTO, roomy or able)
    if not roomy:
        ready.sort(key=lambda instance: -(instance.context or 0))
        return Route(ready, f"auto: largest context, for about {needs.tokens} tokens")
    rank = {instance.expert: place for place, instance in reversed(list(enumerate(experts)))}

    def place(one: C) -> tuple[float, ...]:
        return _strangeness(one, needs), one.cost, rank[one.expert]

    turn = _turn(needs, ready)
    ready.sort(key=lambda one: (place(one), turn(one)))
    count = len({instance.expert for instance in roomy})
    reason = "auto: the only one that can" if count == 1 else f"auto: cheapest of {count}"
    if needs.domain and needs.domain in ready[0].domains:
        reason = f"auto: for {needs.domain}"
    if len(ready) < len(roomy):
        before = [one for one in roomy if place(one) < place(ready[0])]
        reason += "".join(
            f"; {one} is not ready" for one in dict.fromkeys(o.expert for o in before)
        )
    home = _home(needs, ready)
    return Route(ready, reason + (KEPT if home else ""), home=home)


def undecided(needs: Needs, instances: Sequence[Candidate]) -> bool:
    """Return whether the selection for `auto` depends on the domain: the experts that can answer
    are made for different domains."""
    experts = [one for one in instances if one.expert is not None and one.auto and one.usable]
    able = [one for one in experts if lack_of(one, needs) is None and _fits(one, needs)]
    return len({tuple(one.domains) for one in able}) > 1


def _strangeness(instance: Candidate, needs: Needs) -> int:
    """0: made for this domain; 1: for everything; 2: for other ones. Without a domain, all 0."""
    if not needs.domain or needs.domain in instance.domains:
        return 0
    return 2 if instance.domains else 1


def _spare(names: Sequence[str], needs: Needs, instances: Sequence[C]) -> list[C]:
    """Those of the declared fallbacks that are ready and can, in the order of the declaration."""
    able = [
        one
        for name in names
        for one in sorted((one for one in instances if one.expert == name), key=lambda o: o.load)
    ]
    return [one for one in able if one.usable and not lack_of(one, needs) and _fits(one, needs)]


def _ready(model: str, instances: Sequence[C], *, needed: bool = True) -> list[C]:
    """Return the instances that can be used now."""
    ready = [instance for instance in instances if instance.usable]
    if needed and not ready:
        raise none_healthy(model, {one.label: one.reason or LEFT_ALONE for one in instances})
    return ready


def _turn(needs: Needs, ready: Sequence[C]) -> Callable[[C], tuple[float, ...]]:
    """Return the sort key of an expert's instances: first one with a free slot, then the one
    with the prefix in its cache, then the least busy, then the fastest."""
    homes = _homes(needs.affinity, ready) if needs.affinity else None
    if not homes:
        return _TURN
    return lambda one: (not one.free or one.load >= 1, one.label not in homes, *one.turn)


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


def _home(needs: Needs, ready: Sequence[C]) -> C | None:
    """The first choice, if it was made for the prompt's beginning."""
    if not needs.affinity:
        return None
    return ready[0] if ready and ready[0].label in _homes(needs.affinity, ready) else None


def _fits(instance: Candidate, needs: Needs) -> bool:
    return instance.context is None or needs.tokens + ROOM_FOR_ANSWER <= instance.context


def lack_of(instance: Candidate, needs: Needs) -> str | None:
    """Return a capability that the instance lacks; None if it has all that are needed."""
    lacks = (
        (needs.tools and instance.tools == "none", "tools"),
        (needs.vision and not instance.vision, "pictures"),
        (needs.embeddings and not instance.embeddings, "embeddings"),
        (needs.rerank and not instance.rerank, "rerank"),
        (needs.images and not instance.images, "requests for images"),
        (needs.talks and not instance.chat, "chat"),
        (needs.structured and not instance.structured, "JSON schema"),
    )
    lack = next((what for lacking, what in lacks if lacking), None)
    if lack is None and _speaks_not(instance, needs):
        lack = f"language {' or '.join(map(repr, needs.languages))}"
    return lack


def _speaks_not(instance: Candidate, needs: Needs) -> bool:
    spoken = map(primary, instance.languages)
    return bool(needs.languages and instance.languages) and not set(needs.languages) & set(spoken)


def _why_none(needs: Needs, experts: Sequence[Candidate]) -> str:
    lacks = dict.fromkeys(f"{one.expert} takes no {lack_of(one, needs)}" for one in experts)
    return ", ".join(lacks)
