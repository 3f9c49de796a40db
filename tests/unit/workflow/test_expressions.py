"""Expressions: what they can say, and what they cannot do."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecatapp.workflow.expressions import ExpressionError, Missing, expression, render

NAMES: dict[str, Any] = {
    "inputs": {"text": "hi", "n": 3, "digits": "12", "many": [3, 1, 2], "none": None},
    "plan": {"items": [{"name": "a", "done": True}, {"name": "b", "done": False}], "keys": 1},
    "model": {"text": "{{ inputs.text }} {% raw %}"},
    "gone": Missing("'gone' was skipped"),
    "big": {"list": list(range(90_000)), "text": "x" * 900_000},
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ inputs.n }}", 3),
        ("{{ inputs.digits }}", "12"),
        ("{{ inputs.none }}", None),
        ("{{ null }}", None),
        ("{{ [null, inputs.n] }}", [None, 3]),
        ("{{ inputs.none == null }}", True),
        ("{{ inputs['n'] + 1.5 }}", 4.5),
        ("{{ inputs.many | sort }}", [1, 2, 3]),
        ("{{ inputs.many[0] }}", 3),
        ("{{ inputs.many[-1:] + [9] }}", [2, 9]),
        ("{{ inputs.many[inputs.n - 2] }}", 1),
        ("{{ plan.items[1].name }}", "b"),
        ("{{ plan.keys }}", 1),
        ("{{ plan['items'] | selectattr('done') | map(attribute='name') | list }}", ["a"]),
        ("{{ inputs.many | select('gt', 1) | sum }}", 5),
        ("{{ 'yes' if inputs.n > 2 and not inputs.none else 'no' }}", "yes"),
        ("{{ 1 < inputs.n <= 3 }}", True),
        ("{{ 'h' in inputs.text }}", True),
        ("{{ 4 not in inputs.many }}", True),
        ("{{ inputs.n is odd }}", True),
        ("{{ {'a': [inputs.n, true]} }}", {"a": [3, True]}),
        ("{{ inputs.nope | default('none') }}", "none"),
        ("{{ inputs.nope.deeper | default(1) }}", 1),
        ("{{ gone.text | default('skipped') }}", "skipped"),
        ("{{ first(gone.text, inputs.nope, inputs.text) }}", "hi"),
        ("{{ '{\"a\": 1}' | fromjson }}", {"a": 1}),
        ("n = {{ inputs.n }}", "n = 3"),
        ("{{ inputs.text }}{{ inputs.n }}", "hi3"),
        ("a{{ inputs.none }}b", "ab"),
        ("{{ plan }}!", '{"items": [{"name": "a", "done": true}, {"name": "b", "done": false}],'
         ' "keys": 1}!'),
        ("{% raw %}{{ inputs.n }}{% endraw %}", "{{ inputs.n }}"),
        ("{{ model.text }}", "{{ inputs.text }} {% raw %}"),
        ("<{{ model.text }}>", "<{{ inputs.text }} {% raw %}>"),
    ],
)  # fmt: skip
def test_value_keeps_its_type_or_becomes_text(source: str, value: object) -> None:
    """Exactly one `{{…}}` gives the value itself, everything else text; nothing is guessed."""
    assert expression(source).value(NAMES) == value
    assert type(expression(source).value(NAMES)) is type(value)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ inputs.__class__.__mro__ }}",
        "{{ inputs['__class__'] }}",
        "{{ inputs.text.upper() }}",
        "{{ inputs.text.format }}",
        "{{ inputs.many.append(1) }}",
        "{{ inputs | attr('__class__') }}",
        "{{ plan['items'] | map(attribute='__class__') | list }}",
        "{{ plan['items'] | selectattr('__class__') | list }}",
        "{{ plan['items'] | sort(attribute='__class__.__name__') }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum() }}",
        "{{ lipsum.__globals__ }}",
        "{{ joiner() }}",
        "{{ namespace() }}",
        "{{ dict() }}",
        "{{ range(10 ** 9) }}",
        "{{ range(5) }}",
        "{{ first() }}",
        "{{ first(*inputs.many) }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'x' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}' | format(1) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | indent(1000000000) }}",
        "{{ 'a' | wordwrap }}",
        "{{ 'a' | xmlattr }}",
        "{{ inputs | pprint }}",
        "{{ 'a' | replace('', big.text) }}",
        "{{ big.list | join(big.text) }}",
        "{{ big.text + big.text }}",
        "{{ big.text ~ big.text }}",
        "{{ big.text }}{{ big.text }}",
        "{{ big.list + big.list }}",
        "{{ big.text | list }}",
        "{{ " + " ~ ".join(["big.text"] * 1000) + " }}",
        "{{ " + " == ".join(["big.list"] * 1000) + " }}",
        "{{ " + "*".join(["99999999999999999999"] * 100) + " }}",
        "{{ " + "9" * 5000 + " }}",
        "{{ 1e999 }}",
        "{{ 'nan' | float }}",
        "{{ 'NaN' | fromjson }}",
        "{{ ('9' * 100) | int }}",
        "{{ '" + "9" * 100 + "' | int }}",
        "{{ ('[' * 100000) | fromjson }}",
        "{{ '" + "[" * 10_000 + "' | fromjson }}",
        "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
        "{{ " + "not " * 4000 + "1 }}",
        "{{ " + "[" * 4000 + "]" * 4000 + " }}",
        "x" * 30_000 + "{{ 1 }}",
        "{{ 1 / 0 }}",
        "{{ 1 if false }}",
        "{{ inputs.text + 1 }}",
        "{{ inputs.nope }}",
        "{{ gone.text }}",
        "{{ nobody }}",
        "{{ caller() }}",
        "{{ inputs.text is defined }}",
        "{{ inputs | map('map') }}",
        "{% for x in inputs.many %}{{ x }}{% endfor %}",
        "{% set x = 1 %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% macro f() %}{{ f() }}{% endmacro %}",
        "{% extends 'x' %}",
        "{{ ",
        "{{ a b }}",
        "{{ a.b. }}",
        "{{ }}",
    ],
)  # fmt: skip
def test_attack_is_refused_in_no_time(source: str) -> None:
    """Documents come from models: no expression reaches Python, and none eats the machine."""
    began = time.process_time()

    with pytest.raises(ExpressionError):
        expression(source).value(NAMES)

    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("source", "reads", "only"),
    [
        ("{{ a.b[0]['c'] }}", ["a.b.0.c"], "a.b.0.c"),
        ("{{ first(a.x, b) }}", ["a.x?", "b?"], None),
        ("{{ a.x | default(b.y) }}", ["a.x?", "b.y"], None),
        ("{{ (a.x + 1) | default(0) }}", ["a.x"], None),
        ("{{ a[b.c].d }}", ["a", "b.c"], None),
        ("{{ a | join(b) }} {{ c if d else e }}", ["a", "b", "d", "c", "e"], None),
        ("{{ plan }}", ["plan"], "plan"),
    ],
)
def test_reads_are_known_without_running(source: str, reads: list[str], only: str | None) -> None:
    """Edges of the graph and checks of names come from what an expression reads."""
    found = expression(source)

    assert [f"{read}{'?' if read.soft else ''}" for read in found.reads] == reads
    assert (str(found.only) if found.only else None) == only


def test_error_names_what_is_missing_and_what_is_there() -> None:
    """The author of a document, a person or a model, can mend it from the message alone."""
    with pytest.raises(ExpressionError, match=r"inputs\.txt.*no 'txt'; there is text, n"):
        expression("{{ inputs.txt }}").value(NAMES)
    with pytest.raises(ExpressionError, match=r"no filter 'uppr'\. Did you mean 'upper'"):
        expression("{{ inputs.text | uppr }}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_value_passes_through_unchanged(value: object) -> None:
    """What a tool gave is what the next one gets, whatever it holds."""
    names = {"a": {"value": value}}

    assert render({"in": ["{{ a.value }}"]}, names) == {"in": [value]}
