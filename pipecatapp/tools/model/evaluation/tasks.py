"""The tasks of an evaluation: small, with one right answer each, and judged without a model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hearth.models.evaluation import Skill

Json = dict[str, Any]
PROMPTS: Final = Path(__file__).parents[3] / "prompts"


@dataclass(frozen=True)
class Task:
    """One question to the model."""

    id: str
    skill: Skill
    text: str
    right: Any
    """The arguments of the call, the JSON object, or words of which the answer has one."""
    tools: tuple[Json, ...] = ()
    schema: Json | None = None
    """JSON Schema of the answer."""
    words: tuple[str, ...] = ()
    """Frequent words of the language, of which a whole sentence has at least two."""
    files: Mapping[str, str] = field(default_factory=dict)
    """A project whose `check.py` fails until its bug is fixed."""
    system: str = ""


def _tool(name: str, about: str, **parameters: str) -> Json:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in parameters.items()},
                "required": list(parameters),
            },
        },
    }


def _object(**fields: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _prompt(name: str) -> str:
    """Return the text of a shipped prompt, without its head."""
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()


WEATHER: Final = _tool("get_weather", "Tell the weather of a city.", city="string")
TIMER: Final = _tool("set_timer", "Set a kitchen timer.", minutes="integer")
LAMP: Final = _tool("switch_lamp", "Switch a lamp.", room="string", on="boolean")
HOUSE: Final = (WEATHER, TIMER, LAMP)
FUNCTION: Final = _object(path="string", symbol="string", source="string")
BUGS: Final = {
    "minus": (
        "def total(price: float, discount: float) -> float:\n    return price + discount\n",
        "from shop import total\n\nassert total(10.0, 4.0) == 6.0, total(10.0, 4.0)\n",
        "AssertionError: 14.0",
    ),
    "empty": (
        "def largest(values: list[int]) -> int:\n"
        '    """Return the largest value, 0 if there is none."""\n'
        "    return max(values)\n",
        "from shop import largest\n\nassert largest([1, 3, 2]) == 3\nassert largest([]) == 0\n",
        "ValueError: max() arg is an empty sequence",
    ),
    "range": (
        "def numbers(last: int) -> list[int]:\n"
        '    """Return the numbers from 1 to last, both included."""\n'
        "    return list(range(1, last))\n",
        "from shop import numbers\n\nassert numbers(3) == [1, 2, 3], numbers(3)\n",
        "AssertionError: [1, 2]",
    ),
}
"""By name: a program with a bug, its check, and the error of the check."""
ENGLISH: Final = ("the", "a", "is", "are", "and", "of", "to", "in", "that", "it")
GERMAN: Final = ("der", "die", "das", "ein", "eine", "und", "von", "zu", "in", "mit", "nicht")


def _repair(name: str, skill: Skill) -> Task:
    program, check, error = BUGS[name]
    text = (
        f"This command fails: python3 check.py\n\nIts error is {error}\n\nThe code:\n\n"
        f"shop.py, lines 1 to {len(program.splitlines())}:\n```\n{program}```\n"
        f"check.py (must not be changed):\n```\n{check}```"
    )
    return Task(
        f"{skill}-{name}", skill, text, None, files={"shop.py": program, "check.py": check},
        schema=FUNCTION if skill == "function" else None,
        system=_prompt("fix-function" if skill == "function" else "fix-code"),
    )  # fmt: skip


def tasks() -> list[Task]:
    """Return all tasks, one of each skill in turn, so that a short evaluation has some of each."""
    by_skill: list[list[Task]] = [
        [
            Task("tool-one", "tools", "What is the weather in Berlin?",
                 {"get_weather": {"city": "Berlin"}}, (WEATHER,)),
            Task("tool-number", "tools", "Set a timer for twelve minutes, please.",
                 {"set_timer": {"minutes": 12}}, HOUSE),
            Task("tool-choice", "tools", "Turn on the light in the kitchen.",
                 {"switch_lamp": {"room": "kitchen", "on": True}}, HOUSE),
        ],
        [
            Task("json-person", "json", "Alice is 31 and lives in Rome. Fill in the form.",
                 {"name": "Alice", "age": 31, "city": "Rome"},
                 schema=_object(name="string", age="integer", city="string")),
            Task("json-order", "json", "Order: three boxes of tea, not express. Fill in the form.",
                 {"boxes": 3, "express": False},
                 schema=_object(boxes="integer", express="boolean")),
            Task("json-sum", "json", "Add 19 and 23. Fill in the form.", {"sum": 42},
                 schema=_object(sum="integer")),
        ],
        [_repair(name, "blocks") for name in BUGS],
        [_repair(name, "function") for name in BUGS],
        [
            Task("english-fact", "english", "What is the capital of France? One word.", ["paris"]),
            Task("english-number", "english", "How many days has a week? Only the number.",
                 ["7", "seven"]),
            Task("english-sentence", "english", "Explain in one sentence what a bee makes.",
                 ["honey", "wax"], words=ENGLISH),
        ],
        [
            Task("german-fact", "german", "Nenne die Hauptstadt von Italien. Ein Wort.", ["rom"]),
            Task("german-number", "german", "Wie viele Monate hat ein Jahr? Nur die Zahl.",
                 ["12", "zwölf"]),
            Task("german-sentence", "german", "Erkläre in einem Satz, was eine Biene macht.",
                 ["honig", "nektar", "blüte", "bestäub", "pollen"], words=GERMAN),
        ],
    ]  # fmt: skip
    return [task for row in zip(*by_skill, strict=True) for task in row]


def judge_text(task: Task, text: str) -> str:
    """Return why an answer in words is not right; empty if it is."""
    words = "".join(one if one.isalnum() else " " for one in text.lower()).split()
    if not any(right in word for right in task.right for word in words):
        return f"The answer has none of {', '.join(task.right)}: {text[:100]!r}"
    if task.words and len(set(words) & set(task.words)) < 2:
        return f"The answer is not a sentence of the language: {text[:100]!r}"
    return ""


def judge_json(task: Task, text: str) -> str:
    """Return why a JSON answer is not right; empty if it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return f"The answer is not JSON: {text[:100]!r}"
    return "" if _alike(value, task.right) else f"The answer has other values: {text[:100]}"


def judge_calls(task: Task, calls: list[tuple[str, Any]], text: str) -> str:
    """Return why the calls, as name and arguments, are not right; empty if they are."""
    if not calls:
        return f"No tool was called: {text[:100]!r}"
    if len(calls) == 1 and _alike(dict(calls), task.right):
        return ""
    return f"Another call was made: {calls!r}"[:200]


def _alike(one: Any, other: Any) -> bool:
    """Compare, without regard to the case of letters and to spaces around a text."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().lower() == other.strip().lower()
    return type(one) is type(other) and bool(one == other)
