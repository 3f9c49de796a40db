"""The form in the terminal: what is asked, in which words, and what a person may answer."""

import pytest

from pipecatapp.cli.exit_codes import CommandFailed
from pipecatapp.cli.forms import Form
from tests.support.order_tool import order


class Person:
    """Somebody who types these lines, and then nothing more."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.read_lines: list[str] = []

    def say(self, text: str) -> None:
        self.read_lines.append(text)

    def type(self) -> str | None:
        return self._lines.pop(0) if self._lines else None

    def fill(self, **given: object) -> dict[str, object]:
        return Form(order.input_schema(), self.say, self.type).fill(given)

    @property
    def text(self) -> str:
        return "\n".join(self.read_lines)


def test_every_field_is_asked_for_with_its_type_and_description() -> None:
    """Objects and lists of objects are asked for field by field; nobody types JSON."""
    person = Person(
        *("y", "lamp", "2", "y", "cable", "", "n"), "fast", *("y", "Hof 1", ""),
        *("ring", "twice", ""), "yes",
    )  # fmt: skip
    assert person.fill() == {
        "items": [{"name": "lamp", "count": 2}, {"name": "cable"}],
        "speed": "fast",
        "address": {"street": "Hof 1"},
        "notes": ["ring", "twice"],
        "wrapped": True,
    }
    assert "items[0].count (integer, default 1)\n  How many." in person.text
    assert 'speed (one of slow, fast, default "slow")\n  How it is sent.' in person.text
    assert "address.street (string, required)\n  Street and number." in person.text


def test_wrong_answer_is_told_and_the_question_asked_again() -> None:
    """The reason is that of the schema; what was typed before stays."""
    person = Person(
        *("n", "y", "", "lamp", "x", "21", "3", "n"), "medium", "slow", *("y", "Ho", "Hof 1", ""),
        "", "perhaps", "no",
    )  # fmt: skip
    assert person.fill() == {
        "items": [{"name": "lamp", "count": 3}],
        "speed": "slow",
        "address": {"street": "Hof 1"},
        "wrapped": False,
    }
    for fault in (
        "[] should be non-empty.",
        "This is needed.",
        "Input 'items[0].count' is not a valid integer: 'x'.",
        "21 is greater than the maximum of 20.",
        "'medium' is not one of ['slow', 'fast'].",
        "'Ho' is too short.",
        "Input 'wrapped' is not a valid boolean: 'perhaps'.",
    ):
        assert f"  {fault}" in person.read_lines


def test_given_inputs_are_not_asked_for() -> None:
    """`--input` and the form go together."""
    person = Person()
    given = {"items": [{"name": "lamp"}], "speed": "fast", "address": None, "notes": []}
    assert person.fill(**given) == given
    assert person.text == "\nwrapped (boolean, default false)\n  As a present."


def test_end_of_the_input_before_a_required_value_is_a_sentence() -> None:
    """Ctrl-D in the middle starts nothing."""
    with pytest.raises(CommandFailed, match=r"The input ended before 'items\[0\]\.name' had"):
        Person("y").fill()
    with pytest.raises(CommandFailed, match="The input ended before 'items' had a value"):
        Person().fill()
