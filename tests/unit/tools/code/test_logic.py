"""Small changes of logic: what is proposed for a function, as the changed part of its text."""

import difflib

import pytest

from pipecatapp.tools.code.fix.logic import logic

CASES = [
    ("a < b", ["a <= b", "a > b"]),
    ("(a) in (b)", ["(a) not in (b)"]),
    ("a is not b", ["a is b"]),
    ("a not in b", ["a in b"]),
    ("(a + b) * c", ["(a + b) / c", "(a + b) // c", "(a + b) + c", "(a - b) * c"]),
    ("x[1]", ["x[0]", "x[2]"]),
    ("f(flag=True)", ["f(flag=False)"]),
    ("a and not b", ["a or not b", "a and b"]),
    ("f(a, g(b))", ["f(g(b), a)"]),
    ("f(*a, b)", []),
    ("'ä' + a", ["'ä' - a"]),
    ("a if b else c", []),
]


@pytest.mark.parametrize(("expression", "changed"), CASES)
def test_each_place_is_changed_alone(expression: str, changed: list[str]) -> None:
    """All other bytes of the file stay as they are."""
    head, tail = "import os\n\n\ndef f(a, b, c, x):\n    return ", "\n\n\ndef g(): return 1 + 1\n"

    found = [one.text for one in logic(f"{head}{expression}{tail}", 5)]

    assert sorted(found) == sorted(f"{head}{one}{tail}" for one in changed)


def test_only_the_innermost_function_of_the_line_is_changed() -> None:
    """Code outside of functions and files that do not parse have no candidates."""
    source = "N = 1 + 1\n\ndef f():\n    def g():\n        return 1 < 2\n    return 3 < 4\n"

    inner = {
        line
        for one in logic(source, 5)
        for line in difflib.ndiff(source.splitlines(), one.text.splitlines())
        if line.startswith("- ")
    }

    assert inner == {"-         return 1 < 2"}
    assert list(logic(source, 1)) == []
    assert list(logic("def f(:", 1)) == []
