"""Repairs of texts that models write wrongly."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipecatapp.tools import TOOLS
from pipecatapp.tools.fix.edits import LARGEST, Edits
from pipecatapp.workflow import Context, ToolFailed

pytestmark = pytest.mark.anyio
BY_KIND = {
    "json": TOOLS["fix.json"],
    "yaml": TOOLS["fix.yaml"],
    "markdown": TOOLS["fix.markdown"],
}
RIGHT = '{"name": "tea shop", "rates": [1, 2.5], "open": true, "more": {"a": null}}'
DATA = json.loads(RIGHT)
WORD = st.text("abcXYZ é", min_size=1, max_size=8)
LEAF = st.none() | st.booleans() | st.integers(-99, 99) | WORD
DOCUMENT = st.dictionaries(
    st.text("abc_x", min_size=1, max_size=6),
    st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3)
                 | st.dictionaries(st.text("abc_x", min_size=1, max_size=6), inner, max_size=3)),
    min_size=1, max_size=4,
)  # fmt: skip


async def repaired(kind: str, text: str, **more: Any) -> dict[str, Any]:
    """Call a tool, and check that its changes lead from the text to the result."""
    result = await BY_KIND[kind].check(Context(), {"text": text, **more})
    assert (result["text"] == text) is (result["changes"] == [])
    assert result["ok"] is (result["error"] is None)
    removed = sum(len(change["before"]) for change in result["changes"])
    added = sum(len(change["after"]) for change in result["changes"])
    assert len(text) - removed + added == len(result["text"])  # Nothing is lost silently.
    lines = text.count("\n") + 1
    assert all(1 <= change["line"] <= lines and change["reason"] for change in result["changes"])
    return dict(result)


DAMAGED_JSON = [
    (f"Here is the JSON:\n\n```json\n{RIGHT}\n```\nIt has two rates.", "fence"),
    (f"```\n{RIGHT}\n```", "fence"),
    (f"```json\n{RIGHT}", "fence"),
    (f"The answer is {RIGHT} as you asked.", "text around"),
    (RIGHT.replace("2.5]", "2.5,]"), "superfluous comma"),
    (RIGHT.replace("null}}", "null},}"), "superfluous comma"),
    (RIGHT.replace("[1, 2.5]", "[1 2.5]"), "missing comma"),
    (RIGHT.replace('"rates"', '// per hour\n"rates"'), "comment"),
    (RIGHT.replace('"rates"', '/* per hour */ "rates"'), "comment"),
    (RIGHT.replace('"', "'"), "single quotes"),
    (RIGHT.replace('"rates"', "rates"), "quotes around a key"),
    (RIGHT.replace('"tea shop"', "\u201ctea shop\u201d"), "curly quotes"),
    (repr(DATA), "None becomes null"),
    (RIGHT[:-1], "} added"),
    (RIGHT[:-2], "}} added"),
    (RIGHT.replace("null", "undefined"), "undefined becomes null"),
    (RIGHT.replace("null", "NaN"), "NaN is not valid"),
    (RIGHT.replace("null", "-Infinity"), "-Infinity is not valid"),
    (f"\ufeff{RIGHT}", "byte order mark"),
    (f"const shop = {RIGHT};", "text around"),
    (RIGHT.replace('"name":', '"name" ='), "= becomes :"),
]


@pytest.mark.proves("001-29")
@pytest.mark.parametrize(("text", "reason"), DAMAGED_JSON)
async def test_damaged_json_says_what_it_said(text: str, reason: str) -> None:
    """Each damage is repaired to the same data, and the change is listed with its reason."""
    result = await repaired("json", text)

    assert (result["ok"], result["value"]) == (True, DATA)
    assert json.loads(result["text"]) == DATA
    assert any(reason in change["reason"] for change in result["changes"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "tea and cof', {"a": "tea and cof"}),
        ('{"a": [1, {"b": "x", ', {"a": [1, {"b": "x"}]}),
        ('{"a": 1, "b":', {"a": 1, "b": None}),
        ('{"a": 1, "b"', {"a": 1, "b": None}),
        ('{"a": tr', {"a": True}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\\\\\', {"a": "x\\"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('```json\n{"a": ["x", "y', {"a": ["x", "y"]}),
    ],
)
async def test_truncated_json_is_closed_and_marked(text: str, value: Any) -> None:
    """A reader must know that the last value may be incomplete."""
    result = await repaired("json", text)

    assert (result["ok"], result["value"], result["truncated"]) == (True, value, True)


async def test_line_of_a_change_is_that_of_the_text_that_was_passed() -> None:
    """Removed lines before it do not count less."""
    text = "Here:\n\n```json\n{\n  // one\n  'a': 1,\n  b: NaN,\n}\n```\nDone."
    result = await repaired("json", text)

    assert result["text"] == '{\n  \n  "a": 1,\n  "b": null\n}\n'
    assert [(change["line"], change["before"]) for change in result["changes"]] == [
        (9, "```\nDone."), (1, "Here:\n\n```json\n"), (5, "// one"), (6, "'a'"), (7, "b"), (7, ","),
        (7, "NaN"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "Expecting value."),
        ("I cannot do that.", 1, "Expecting value."),
        ('{"a":\n"He said "no" to me"}', 2, "Expecting ',' delimiter."),
        ('{"a": 1} or {"b": 2}', 1, "Extra data."),
        ('```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```', 4, "The text has 2 fenced blocks"),
        ('{"a": ...}', 1, "Expecting value."),
        ("[" * 5000, None, "It is nested too deeply."),
        (f'"{"x" * LARGEST}"', None, f"The text is longer than {LARGEST} characters."),
    ],
)
async def test_json_that_is_not_clear_stays_and_has_an_error(
    text: str, line: int | None, message: str
) -> None:
    """A guess would change what was said."""
    result = await repaired("json", text)

    assert (result["ok"], result["text"], result["value"]) == (False, text, None)
    assert result["error"]["type"] == "JSONDecodeError"
    assert result["error"]["line"] == line
    assert result["error"]["message"].startswith(message)
    assert result["error"]["signature"]


async def test_json_is_checked_against_a_form_after_the_repair() -> None:
    """Valid JSON of another form is an error, and the repaired text is still returned."""
    form = {"name": "text", "rates": "list of number"}
    right = await repaired("json", "{'name': 'tea', 'rates': [1,]}", returns=form)
    wrong = await repaired("json", "{'name': 'tea', 'rates': 'high'}", returns=form)

    assert right["value"] == {"name": "tea", "rates": [1]}
    assert (wrong["ok"], wrong["value"]) == (False, None)
    assert wrong["error"]["type"] == "SchemaError"
    assert "rates" in wrong["error"]["message"]
    assert wrong["text"] == '{"name": "tea", "rates": "high"}'
    with pytest.raises(ToolFailed, match="`returns` is not a valid type"):
        await repaired("json", "{}", returns="texts")


@given(DOCUMENT, st.sampled_from([None, 0, 2]))
async def test_valid_json_is_returned_unchanged(document: Any, indent: int | None) -> None:
    """Whatever its data and its indentation."""
    text = json.dumps(document, indent=indent)
    result = await repaired("json", text)

    assert (result["ok"], result["text"], result["value"]) == (True, text, document)


@given(DOCUMENT, st.data())
async def test_damage_of_any_json_is_repaired(document: Any, draw: st.DataObject) -> None:
    """Several kinds of damage at once."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    damages: dict[str, Callable[[str], str]] = {
        "python": lambda _: repr(document),
        "commas": lambda text: text.replace("\n}", ",\n}"),
        "comment": lambda text: text.replace("\n", " // a comment\n", 1),
        "end": lambda text: text.rstrip("}\n "),
        "fence": lambda text: f"Sure, here it is:\n```json\n{text}\n```\nDone.",
        "prose": lambda text: f"Sure: {text}",
    }
    for name in damages:
        if draw.draw(st.booleans(), label=name) and not (name == "end" and '"' not in text):
            text = damages[name](text)
    result = await repaired("json", text)

    assert (result["ok"], result["value"]) == (True, document), text


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
DAMAGED_YAML = [
    ("  open: 9\n", "\topen: 9\n", "tab"),
    ("  open: 9\n", "  open:9\n", "space after the colon"),
    ("  open: 9\n", "   open: 9\n", "indentation"),
    ('  close: "18"\n', '   close: "18"\n', "indentation"),
    ('"18"', '"18', "missing quote"),
    ("hours:\n", "hours\n", "missing colon"),
    ("  - coffee\n", " - coffee\n", "indentation"),
    ("about: It is a shop", 'about: "It is a shop', "missing quote"),
    ("goods:\n  - tea\n  - coffee\n", "goods: [tea, coffee\n", "missing bracket"),
]


def loaded(text: str) -> Any:
    """Load YAML."""
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.proves("001-29")
@pytest.mark.parametrize(("right", "wrong", "reason"), DAMAGED_YAML)
@pytest.mark.parametrize("fenced", [False, True])
async def test_damaged_yaml_says_what_it_said(
    right: str, wrong: str, reason: str, *, fenced: bool
) -> None:
    """Each damage is repaired to the same data; comments stay."""
    text = RIGHT_YAML.replace(right, wrong)
    assert text != RIGHT_YAML
    result = await repaired("yaml", f"Here it is.\n\n```yaml\n{text}```\nGood?" if fenced else text)

    assert result["ok"]
    assert loaded(result["text"]) == loaded(RIGHT_YAML)
    assert result["text"].startswith("# A shop\n")
    assert any(reason in change["reason"] for change in result["changes"])


async def test_several_mistakes_of_yaml_are_repaired_one_by_one() -> None:
    """Each has its line in the text that was passed."""
    text = "Here:\n```yaml\ntitle: Tea: a guide\nby:@anna\nnote: *must read*\n```"
    result = await repaired("yaml", text)

    assert loaded(result["text"]) == {
        "title": "Tea: a guide", "by": "@anna", "note": "*must read*"
    }  # fmt: skip
    assert {change["line"] for change in result["changes"]} == {1, 3, 4, 5, 6}


async def test_yaml_list_in_prose_is_taken_out_of_its_fence() -> None:
    """To YAML all of it is one text, which nobody meant."""
    result = await repaired("yaml", "Sure!\n\n```yaml\n- a\n- b\n```")

    assert (result["ok"], result["text"]) == (True, "- a\n- b\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, {2]", 1),
        ("a:\n  b: 1\n c: 2\nd: 3\n", 3),
        ("```yaml\na: 1\n```\n```yaml\nb: 2\n```", 4),
    ],
)
async def test_yaml_that_is_not_clear_stays_and_has_an_error(text: str, line: int) -> None:
    """The error has the line."""
    result = await repaired("yaml", text)

    assert (result["ok"], result["text"]) == (False, text)
    assert (result["error"]["type"], result["error"]["line"]) == ("YAMLError", line)


@given(DOCUMENT)
async def test_valid_yaml_is_returned_unchanged(document: Any) -> None:
    """JSON is YAML, too."""
    result = await repaired("yaml", json.dumps(document, indent=2))

    assert (result["ok"], result["changes"]) == (True, [])


RIGHT_MARKDOWN = """# Tea

A text with **strong** words, `code | x` and a [link](https://example.org/a).

## Kinds

- green
- black, **strong**

1. Boil
2. Pour

| kind | minutes |
| --- | --- |
| green | 2 |
| black | 4 |

```python
#no heading
print("**")
```

**Note: read this.**
"""
DAMAGED_MARKDOWN = [
    ('print("**")\n```\n\n**Note: read this.**\n', 'print("**")\n', "fence closed"),
    ("## Kinds", "##Kinds", "space of a heading"),
    ("# Tea", "#Tea", "space of a heading"),
    ("- black", "-black", "space of a list item"),
    ("- green", "• green", "marked with -"),
    ("2. Pour", "2.Pour", "space of a list item"),
    ("| --- | --- |", "| --- |", "fitted to it"),
    ("| --- | --- |", "| --- | --- | --- |", "fitted to it"),
    ("| --- | --- |\n", "", "below the header of a table added"),
    ("| black | 4 |", "| black | 4 | |", "empty cells"),
    ("read this.**", "read this.", "unclosed emphasis"),
    ("black, **strong**", "black, **strong", "unclosed emphasis"),
    ("[link](https", "[link] (https", "space within a link"),
]


@pytest.mark.proves("001-29")
@pytest.mark.parametrize(("right", "wrong", "reason"), DAMAGED_MARKDOWN)
async def test_damaged_markdown_is_the_same_again(right: str, wrong: str, reason: str) -> None:
    """Each damage is repaired to the text as it was; where it ends early, code stays code."""
    assert RIGHT_MARKDOWN.count(right) == 1
    result = await repaired("markdown", RIGHT_MARKDOWN.replace(right, wrong))

    expected = RIGHT_MARKDOWN
    if "fence" in reason:
        expected = RIGHT_MARKDOWN.partition("\n\n**Note")[0] + "\n"
    assert result["text"] == expected
    assert [change["reason"] for change in result["changes"] if reason in change["reason"]]
    assert len(result["changes"]) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [it](https://example.org/x", "See [it](https://example.org/x)"),
        ("| a | b |\n| --- | --- |\n| 1 |", "| a | b |\n| --- | --- |\n| 1 | |"),
        (
            "| a | b |\n| --- | --- |\n| `x | y` | 1 |",
            "| a | b |\n| --- | --- |\n| `x \\| y` | 1 |",
        ),
        ("```markdown\n# Tea\n\nIt is good.\n```\n", "# Tea\n\nIt is good.\n"),
        ("~~~~ sh\nls", "~~~~ sh\nls\n~~~~\n"),
    ],
)
async def test_other_mistakes_of_markdown_are_repaired(text: str, expected: str) -> None:
    """A repair of the result has nothing to do any more."""
    result = await repaired("markdown", text)

    assert (result["ok"], result["text"]) == (True, expected)
    assert (await repaired("markdown", expected))["changes"] == []


@pytest.mark.parametrize(
    "text",
    [
        RIGHT_MARKDOWN,
        "",
        "#tag and #Tag in a text\n#another",
        "    #Code\n    -code",
        "<!--\n##Hidden\n-->\n",
        "---\nkey: **x\n---\n",
        "-v is verbose\n-q is quiet",
        "*emphasis*\n*more*",
        "2 ** 3 and `**`",
        "x = 5 | 6\n\n1.5 litres",
        "A \\**not strong",
        "| one pipe",
    ],
)
async def test_markdown_that_may_be_meant_stays(text: str) -> None:
    """Only what is certain is changed, and nothing within code."""
    result = await repaired("markdown", text)

    assert (result["ok"], result["changes"]) == (True, [])


async def test_table_row_with_too_many_cells_is_an_error_and_the_rest_is_repaired() -> None:
    """Readers do not show these cells, and nobody knows which header they belong to."""
    text = "#Rates\n\n| a | b |\n| --- | --- |\n| 1 | 2 | 3 |\n"
    result = await repaired("markdown", text)

    assert result["text"] == text.replace("#Rates", "# Rates")
    assert (result["ok"], result["error"]["line"]) == (False, 5)
    assert result["error"]["message"] == "A table row has 3 cells and its header 2."


HOSTILE = st.text("{}[]\",:'a1- \n\t\\/*#tN|`~>_()!&\r\ufeff\u2028%@.", max_size=60) | st.text(
    max_size=40
)


@given(HOSTILE)
@pytest.mark.parametrize("kind", ["json", "yaml", "markdown"])
async def test_text_of_any_kind_is_repaired_or_has_an_error(kind: str, text: str) -> None:
    """No text makes a tool fail, and a repair of the result changes nothing."""
    result = await repaired(kind, text)
    again = await repaired(kind, result["text"])

    assert again["ok"] is result["ok"]
    assert again["text"] == result["text"]


@given(st.text("ab\n", max_size=20), st.lists(st.text("ab\n", max_size=20), max_size=4))
def test_changes_replayed_lead_to_the_text(text: str, texts: list[str]) -> None:
    """So nothing is changed that is not listed."""
    edits, now = Edits(text), text
    for new in texts:
        edits.become(new, "a reason")
    for offset, change in zip(edits.offsets, edits.changes, strict=True):
        assert now[offset : offset + len(change.before)] == change.before
        now = now[:offset] + change.after + now[offset + len(change.before) :]

    assert now == edits.text == (texts[-1] if texts else text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", "[{" * 60_000),
        ("json", "}" + "[" * 120_000),
        ("json", "{'a': 1}, " * 12_000),
        ("yaml", "a:b: c\n" * 1500),
        ("markdown", "<!---->\n" * 16_000),
        ("markdown", "| a |\n" * 20_000),
        ("markdown", "`" * 120_000),
    ],
)
async def test_long_hostile_text_ends(kind: str, text: str) -> None:
    """Work grows with the length of a text, not with its square."""
    assert (await repaired(kind, text))["text"]
