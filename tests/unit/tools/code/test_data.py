"""Repairs of JSON and YAML that do not parse."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipecatapp.tools.code.fix.data import data
from pipecatapp.tools.fix.json_text import repaired_json
from pipecatapp.tools.fix.yaml_text import repaired_yaml

RIGHT_JSON = """{
  "name": "shop",
  "rates": [1, 2.5],
  "open": true,
  "more": {"a": null, "b": "x \\" y"}
}
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"shop",', '"shop"'),
        ("[1, 2.5]", "[1 2.5]"),
        ("[1, 2.5]", "[1, 2.5,]"),
        ("[1, 2.5]", "[1,, 2.5]"),
        ('y"}\n', 'y",}\n'),
        ('y"}\n}', 'y"}\n'),
        ('y"}\n}', 'y"}\n}}'),
        ('"name"', "name"),
        ('"shop"', "'shop'"),
        ('"shop",', '"shop, '),
        ('"name":', '"name"'),
        ('"name":', '"name" ='),
        ("true", "True"),
        ("null", "None"),
        ('"open"', '// whether it is open\n  "open"'),
        ('"open"', '/* "now" */ "open"'),
        ("{\n", "\ufeff{\n"),
        ("}\n}", "}\n} // the end"),
    ],
)
def test_mistake_in_json_is_repaired(right: str, wrong: str) -> None:
    """The repaired text says the same, and its other lines stay as they are."""
    assert RIGHT_JSON.count(right) == 1
    repaired = repaired_json(RIGHT_JSON.replace(right, wrong))

    assert repaired is not None
    assert json.loads(repaired) == json.loads(RIGHT_JSON)
    assert '  "more": {"a": ' in repaired


def test_several_mistakes_in_json_are_repaired_together() -> None:
    """A file that a person wrote in haste has more than one."""
    assert repaired_json("{'a': [1, 2,], b: None /* no */}") == '{"a": [1, 2], "b": null }'


@pytest.mark.parametrize(
    "text",
    [
        RIGHT_JSON,
        "",
        "no json",
        '{"a": "He said "no" to me"}',
        "[1, 2)",
        '{"a": [1, "b": 2}',
        "{} {}",
        "[" * 9000,
    ],
)
def test_json_that_parses_or_is_not_clear_stays(text: str) -> None:
    """A guess would be worse than the error."""
    assert repaired_json(text) is None


@given(st.text(alphabet="{}[]\",:'a1 \n\\/*#tN", max_size=40))
def test_text_of_any_kind_becomes_json_or_stays(text: str) -> None:
    """No text makes the repair fail, and what it returns parses."""
    repaired = repaired_json(text)

    assert repaired is None or json.loads(repaired) is not Ellipsis


RIGHT_YAML = """# A shop
name: shop
hours:
  open: 9
  close: "18"
goods:
  - tea
  - coffee
about: It is a shop
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("  open: 9\n", "\topen: 9\n"),
        ("  open: 9\n", "  open:9\n"),
        ("  open: 9\n", "   open: 9\n"),
        ('"18"', '"18'),
        ("hours:\n", "hours\n"),
        ("  - coffee\n", " - coffee\n"),
        ("about: It is a shop", 'about: "It is a shop'),
    ],
)
def test_mistake_in_yaml_is_repaired(right: str, wrong: str) -> None:
    """One of the proposals says the same; a test decides which one is kept."""
    assert RIGHT_YAML.count(right) == 1
    safe = YAML(typ="safe", pure=True)
    proposals = list(repaired_yaml(RIGHT_YAML.replace(right, wrong)))

    assert safe.load(RIGHT_YAML) in [safe.load(one) for one in proposals]
    assert all(one.startswith("# A shop\n") for one in proposals)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("about: a shop: in town", "a shop: in town"),
        ("about: @home", "@home"),
        ("about: `x`", "`x`"),
    ],
)
def test_value_that_needs_quotes_gets_them(line: str, value: str) -> None:
    """YAML reads it as something else, or not at all."""
    (repaired,) = repaired_yaml(f"name: shop\n{line}\n")

    assert YAML(typ="safe", pure=True).load(repaired)["about"] == value


def test_files_that_parse_and_other_files_have_no_repair(tmp_path: Path) -> None:
    """Only what does not parse is changed, and the line is described."""
    files = {"a.json": RIGHT_JSON, "b.yaml": RIGHT_YAML, "c.txt": "{", "d/e.json": '{"a": 1,}\n'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "f.json").write_bytes(b"\xff{")

    ((path, candidate),) = data(tmp_path)

    assert (path, candidate.kind, candidate.text) == ("d/e.json", "json", '{"a": 1}\n')
    assert candidate.about == """line 1: '{"a": 1,}' becomes '{"a": 1}'"""
