"""Exact commands: sentences of a person that match Home Assistant's own templates, in 60 languages.

The templates are those of the package `home-assistant-intents`; `hassil` matches them. No model is
used. A sentence matches if it is a command as a whole and names only devices and areas that Home
Assistant shows to assistants.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from hassil import Intents, recognize_best
from hassil.intents import SlotList, TextSlotList
from hassil.recognize import RecognizeResult
from home_assistant_intents import get_intents, get_languages
from jinja2 import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from pipecatapp.tools.home.entities import Entity
from pipecatapp.tools.home.home import DEFAULT_LANGUAGE

LONGEST: Final = 200
"""Characters of a command; a longer text is not matched, because it takes longer."""
LISTS: Final = ("domain", "device_class")
"""Arguments that are lists of names."""
DONE: Final = "OK."
"""The answer if the template of an answer needs more than is known."""


@dataclass(frozen=True)
class Command:
    """A sentence that was understood: the intent, its arguments and what to say when it is done."""

    intent: str
    arguments: Mapping[str, Any]
    answer: str


class Commands:
    """Matches sentences of one language with the names of a home."""

    def __init__(self, language: str, entities: Sequence[Entity]) -> None:
        """`language` is a code such as `de` or `pt-BR`; English is used if it is not known."""
        code = closest(language)
        data: Any = get_intents(code)
        self._language, self._entities = code, entities
        self._answers: Mapping[str, Mapping[str, str]] = data["responses"]["intents"]
        self._intents = Intents.from_dict(data)
        self._templates = SandboxedEnvironment()
        self._names = [
            (_plain(name), (name, entity.names[0], {"domain": entity.domain}))
            for entity in entities
            for name in entity.names
        ]
        self._areas = [
            (_plain(area), (area, entity.areas[0])) for entity in entities for area in entity.areas
        ]
        # Templates are compiled at their first use, which takes a tenth of a second.
        self.find(entities[0].names[0] if entities else "lamp")

    def find(self, sentence: str) -> Command | None:
        """Return the command of a sentence; None if it is not one. Takes some milliseconds."""
        if not sentence.strip() or len(sentence) > LONGEST:
            return None
        found = recognize_best(
            sentence,
            self._intents,
            slot_lists=self._lists(_plain(sentence)),
            language=self._language,
            best_slot_name="name",
        )
        if found is None or found.unmatched_entities_list:
            return None
        arguments = _arguments(found)
        return Command(found.intent.name, arguments, self._answer(found))

    def _lists(self, sentence: str) -> dict[str, SlotList]:
        """Return the names and areas that are in a sentence: trying all of a large home would take
        several times as long."""
        names = [one for name, one in self._names if name in sentence]
        areas = {one for area, one in self._areas if area in sentence}
        return {
            "name": TextSlotList.from_tuples(names, name="name", allow_template=False),
            "area": TextSlotList.from_tuples(areas, name="area", allow_template=False),
            "floor": TextSlotList.from_tuples([], name="floor", allow_template=False),
        }

    def _answer(self, found: RecognizeResult) -> str:
        """Render the answer of the templates; they may ask for more than is known here."""
        template = self._answers.get(found.intent.name, {}).get(found.response or "default", "")
        slots = {name: entity.value for name, entity in found.entities.items()}
        named = next((one for one in self._entities if slots.get("name") in one.names), None)
        state = named or Entity((), str(slots.get("domain", "")))
        try:
            text = self._templates.from_string(template).render(slots=slots, state=state)
        except (TemplateError, TypeError, ValueError):
            return DONE
        text = re.sub(r"\s+", " ", text).strip()
        return DONE if not text or "None" in text else text


def closest(language: str) -> str:
    """Return the language of the templates that is closest to a code."""
    known = get_languages()
    return next(
        (code for code in (language, language.split("-")[0]) if code in known), DEFAULT_LANGUAGE
    )


def _arguments(found: RecognizeResult) -> Mapping[str, Any]:
    slots = {name: entity.value for name, entity in found.entities.items()}
    # Two devices may have the same name: the sentence says which kind is meant.
    domain = found.context.get("domain")
    if "name" in slots and "domain" not in slots and isinstance(domain, str):
        slots["domain"] = domain
    return MappingProxyType(
        {name: _argument(name, value) for name, value in slots.items() if value is not None}
    )


def _argument(name: str, value: Any) -> Any:
    if name in LISTS:
        return value if isinstance(value, list) else [value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(text: str) -> str:
    """Return the letters and digits of a text: punctuation and spaces vary."""
    return re.sub(r"[\W_]+", "", text.casefold())
