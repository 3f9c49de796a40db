"""The devices that Home Assistant shows to assistants: their names, areas and states."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipecatapp.workflow import ToolFailed

LIVE_CONTEXT: Final = "getlivecontext"
"""End of the name of the tool that lists the devices, with its state, as YAML in a text."""
CRITICAL_DOMAINS: Final = frozenset(("alarm_control_panel", "lock", "valve"))
SHORTEST: Final = 3
"""Characters of a word that is compared."""
ALIKE: Final = 0.75
"""Share of common trigrams of words that are taken for the same one."""
CRITICAL_CLASSES: Final = frozenset(("door", "garage", "gate", "lock"))


@dataclass(frozen=True)
class Entity:
    """One device. `names` are its name and its aliases; `kind` is its device class, if known."""

    names: tuple[str, ...]
    domain: str
    areas: tuple[str, ...] = ()
    state: str = ""
    kind: str = ""

    @property
    def critical(self) -> bool:
        """Whether a person approves each action: locks, alarms, valves, doors and gates."""
        return self.domain in CRITICAL_DOMAINS or (
            self.domain == "cover" and self.kind in CRITICAL_CLASSES
        )


def read_entities(answer: Mapping[str, Any]) -> list[Entity]:
    """Return the devices in an answer of the tool `GetLiveContext`.

    Raises `ToolFailed` for an answer of another form.
    """
    try:
        data = answer["data"] or json.loads(answer["text"])
        _, _, listed = data["result"].partition("\n")
        rows = YAML(typ="safe", pure=True).load(listed) or []
        return [_entity(row) for row in rows]
    except (AttributeError, KeyError, TypeError, ValueError, YAMLError) as error:
        raise ToolFailed(f"The list of devices cannot be read: {str(error)[:200]}") from error


def nearest(sentence: str, entities: Iterable[Entity], most: int = 10) -> list[Entity]:
    """Return the devices that a sentence may be about, the most likely first.

    A word of the sentence is compared with the words of names, areas and domain by their common
    trigrams, so that inflected and compound words are found: `Küchenlampen`, `Küchenlampe`.
    """
    words = [_trigrams(word) for word in _words(sentence)]
    scores = [(sum(_nearness(word, one) for word in words), one) for one in entities]
    found = sorted((pair for pair in scores if pair[0] > 0), key=lambda pair: -pair[0])
    return [entity for _, entity in found[:most]]


def _nearness(word: frozenset[str], entity: Entity) -> float:
    """Return how well a word fits a device: 1 for the same word, 0 for a different one."""
    best = max((_likeness(word, _trigrams(one)) for one in _words_of(entity)), default=0.0)
    return best if best >= ALIKE else 0.0


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of trigrams of the shorter word that the longer one has, too.

    A word of three letters is a part of too many others, so it has to be the same.
    """
    shorter = min(len(one), len(other))
    return len(one & other) / shorter if shorter > 1 else float(one == other)


@lru_cache(4096)
def _words_of(entity: Entity) -> tuple[str, ...]:
    return tuple(_words(" ".join((*entity.names, *entity.areas, entity.domain.replace("_", " ")))))


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if len(word) >= SHORTEST]


@lru_cache(4096)
def _trigrams(word: str) -> frozenset[str]:
    return frozenset(word[at : at + 3] for at in range(len(word) - 2))


def is_critical(arguments: Mapping[str, Any], entities: Iterable[Entity]) -> bool:
    """Whether an action with these arguments may reach a device that is critical."""
    return any(one.critical and _may_reach(arguments, one) for one in entities)


def _may_reach(arguments: Mapping[str, Any], entity: Entity) -> bool:
    """Whether each argument that selects devices, as far as it is set, fits a device."""
    chosen = {
        "name": {_plain(name) for name in entity.names},
        "area": {_plain(area) for area in entity.areas},
        "domain": {entity.domain},
        "device_class": {entity.kind},
    }
    if not any(arguments.get(key) for key in (*chosen, "floor")):
        return False
    return all(
        not arguments.get(key) or values & {_plain(one) for one in _each(arguments[key])}
        for key, values in chosen.items()
    )


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    return str(value).strip().casefold()


def _entity(row: Mapping[str, Any]) -> Entity:
    attributes = row.get("attributes") or {}
    return Entity(
        names=_listed(row["names"]),
        domain=str(row["domain"]),
        areas=_listed(row.get("areas") or ""),
        state=str(row.get("state", "")),
        kind=str(attributes.get("device_class", "")),
    )


def _listed(text: Any) -> tuple[str, ...]:
    return tuple(name for part in str(text).split(",") if (name := part.strip()))
