"""`--input name=value`."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.cli.inputs import InvalidInput, parse_inputs

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "loud": {"type": "boolean"},
        "items": {"type": "array"},
        "facts": {"type": "object"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "anything": {},
    },
    "required": ["text"],
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=12", "12"),
        ("text=a=b", "a=b"),
        ("text=@@home", "@home"),
        ("count=12", 12),
        ("share=1", 1),
        ("share=0.5", 0.5),
        ("loud=yes", True),
        ("loud=false", False),
        ("items=[1, 2]", [1, 2]),
        ('facts={"a": 1}', {"a": 1}),
        ("limit=null", None),
        ("limit=3", 3),
        ("either=3", 3),
        ("either=three", "three"),
        ("anything=x", "x"),
    ],
)
def test_input_becomes_what_the_schema_asks_for(word: str, value: Any) -> None:
    """A shell knows only text; a workflow that adds needs numbers."""
    name = word.partition("=")[0]

    assert parse_inputs([word], {**SCHEMA, "required": []})[name] == value


def test_input_is_read_from_a_file(tmp_path: Path) -> None:
    """A long text does not fit a command line."""
    (tmp_path / "letter.txt").write_text("Dear all,\n", encoding="utf-8")

    assert parse_inputs([f"text=@{tmp_path / 'letter.txt'}"], SCHEMA) == {"text": "Dear all,\n"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["text"], "not of the form name=value"),
        (["txt=1"], "Did you mean 'text'"),
        (["count=1"], "'text' is missing"),
        (["text=x", "count=1.5"], "'count' is not a valid integer: '1.5'"),
        (["text=x", "count=true"], "'count' is not a valid integer"),
        (["text=x", "loud=maybe"], "'loud' is not a valid boolean"),
        (["text=@/no/such/file"], "cannot be read"),
    ],
)
def test_wrong_input_is_refused_with_what_to_do(words: list[str], said: str) -> None:
    """Nothing is started with an input that was not meant."""
    with pytest.raises(InvalidInput, match=said):
        parse_inputs(words, SCHEMA)
