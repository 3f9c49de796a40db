"""Documents: what is wrong in one is said at its place, all at once, with a way to mend it."""

import pytest

from pipecatapp.workflow import InvalidDocument, load_document
from pipecatapp.workflow.document.shapes import shape


def faults(text: str) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        load_document(text.lstrip("\n"), file="w.yaml")
    return [str(diagnostic).removeprefix("w.yaml:") for diagnostic in caught.value.diagnostics]


def test_every_fault_of_form_is_told_in_one_go() -> None:
    """Whoever mends a document, a person or a model, does not find its faults one by one."""
    found = faults("""
kind: workflow
id: Two Words
inputs: {text: txt, n: {type: integer, default: 3, abode: x}, run: text}
defaults: {modl: fast}
limits: {node: 3, wall: soon}
steps:
  - id: a
    use: time.now
    width: {zone: UTC}
  - {id: a, use: x, if: inputs.n > 3}
  - {id: b, steps: [], use: c, timeout: 5x, with: [1]}
  - {use: b, needs: a}
  - {id: c, graph: [{id: a, use: x}], model: fast, else: [{id: first, use: d}]}
outputs: {t: "{{ a.x }}", z: {type: text, valve: 3}}
vagrants: 2
""")

    assert found == [
        "2:5: `id`: String should match pattern '^[a-z][a-z0-9-]*$'",
        "3:16: there is no type 'txt'. Did you mean 'text'?",
        "3:52: unknown key 'abode'. Did you mean 'about'?",
        "3:63: 'run' is a reserved name. Choose another name",
        "4:12: unknown key 'modl'. Did you mean 'model'?",
        "5:10: unknown key 'node'. Did you mean 'nodes'?",
        "5:25: 'soon' is not a duration such as 500ms, 30s, 5m or 1h30m",
        "9:5: unknown key 'width'. Did you mean 'with'?",
        "10:10: the id 'a' is taken. Choose another id",
        '10:25: a condition is true, false or one expression: "{{ inputs.n > 3 }}"',
        "11:13: exactly one of `use`, `steps`, `graph`, `goto` is allowed here."
        " Remove `steps` or `use`",
        "11:41: '5x' is not a duration such as 500ms, 30s, 5m or 1h30m",
        "11:51: `with`: Input should be a valid dictionary",
        "12:5: `id` is missing. Add `id: …`",
        "13:26: the id 'a' is taken. Choose another id",
        "13:39: `model` belongs to a node that uses a tool. Move it to a node inside",
        "13:52: `else` needs an `if`",
        "13:64: 'first' is a reserved name. Choose another id",
        "14:30: `value` is missing. Add `value: …`",
        "14:43: unknown key 'valve'. Did you mean 'value'?",
        "15:1: unknown key 'vagrants'. Known: about, allow, defaults, graph, id, inputs, kind,"
        " limits, outputs, project, schedule, steps, tags, version, workspace",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "id: x\nid: y\nsteps: []",
            "2:1: the key 'id' is here twice. Keep one of them",
        ),
        (
            "id: x\nsteps: &all []\ngraph: *all",
            "2:8: anchors and aliases are not allowed: &all. Write the value out where it is used",
        ),
        (
            "id: x\nsteps: *all",
            "2:8: not YAML: found undefined alias 'all'",
        ),
        (
            "id: x\ndefaults:\n  <<: {model: a}",
            "3:3: merge keys are not allowed. Write the keys out",
        ),
        (
            "id: x\non: push",
            "2:1: no key is called 'on': many YAML programs read it as true or false."
            " Choose another name",
        ),
        (
            "id: x\ntags: !!python/object:os.system [a]",
            "2:7: the tag tag:yaml.org,2002:python/object:os.system is not allowed."
            " Write the plain value",
        ),
        (
            "id: x\nabout: {{ inputs.text }}",
            '2:9: an object cannot be a key. Put an expression in quotes: "{{ … }}"',
        ),
        ("id: x\n1: 2", "2:1: the key '1' is not a text. Choose a name that is a word"),
        ("id: x\nversion: .nan", "2:10: '.nan' is not a number that JSON knows."
         " Quote it if it is a text"),
        ("%YAML 1.1\n---\nid: x", "1:1: YAML directives are not allowed. Remove the line"),
        ("id: x\n---\nid: y", "2:1: not YAML: but found another document"),
        ("id: [", "1:6: not YAML: expected the node content, but found '<stream end>'"),
        ("id: x\n\tsteps: []", "2:1: not YAML: found character '\\t' that cannot start any token"),
        ("[" * 5000, "1:1: nested too deeply"),
        ("", "1:1: a workflow is an object with `id` and `steps` or `graph`"),
        ("- a", "1:1: a workflow is an object with `id` and `steps` or `graph`"),
        ("id: x", "1:1: exactly one of `steps`, `graph` is required here"),
        ("a" * 600_000, "1:1: the document is longer than 524288 characters"),
    ],
)  # fmt: skip
def test_yaml_that_surprises_is_refused(text: str, found: str) -> None:
    """One way to read a document: none of YAML's traps, and nothing that grows when it is read."""
    assert found in faults(text)


def test_billion_laughs_are_not_unfolded() -> None:
    """A document of a few lines must not become gigabytes."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(20)
    )

    assert all("anchors and aliases" in fault for fault in faults(bomb))


def test_diagnostic_carries_the_offending_text() -> None:
    """The page shows the line itself, not only its number."""
    with pytest.raises(InvalidDocument) as caught:
        load_document("id: x\nsteps:\n  - {id: a, usee: b}\n", file="w.yaml")

    assert [(d.line, d.column, d.text) for d in caught.value.diagnostics] == [
        (3, 5, "{id: a, usee: b}"),
        (3, 13, "usee: b}"),
    ]


def test_values_are_those_of_yaml_1_2() -> None:
    """`0o17` is a number, `12:30` and `2026-01-01` are texts; nothing becomes true by accident."""
    workflow = load_document(
        """
id: x
steps:
  - id: a
    use: b
    with: {list: [y, Off, 0o17, 0x1f, 010, 12:30, 2026-01-01, 1e3, ~, true, "true"]}
""",
        file="w.yaml",
    )

    steps = workflow.document.steps or []
    assert steps[0].given["list"] == [
        "y", "Off", 15, 31, 10, "12:30", "2026-01-01", 1000.0, None, True, "true",
    ]  # fmt: skip


def test_schemas_tell_what_a_workflow_takes_and_gives() -> None:
    """The page builds its form from them, the shell its help, and other workflows their checks."""
    workflow = load_document(
        """
id: x
version: 2
tags: [chat]
about: Says things.
inputs:
  text: text
  size: {type: "one of small, large", default: small, about: How much.}
  extra: {type: {title: text, pages: integer?, "of": [number]}}
  note: text?
steps: []
outputs: {text: {type: text, value: a}, any: 1}
""",
        file="w.yaml",
    )

    assert (workflow.id, workflow.version, workflow.tags) == ("x", 2, ("chat",))
    schema = workflow.input_schema()
    assert schema["required"] == ["text", "extra"]
    assert schema["properties"]["text"] == {"type": "string"}
    assert schema["properties"]["size"] == {
        "enum": ["small", "large"],
        "type": "string",
        "description": "How much.",
        "default": "small",
    }
    assert schema["properties"]["extra"]["required"] == ["title", "of"]
    assert workflow.output_schema()["properties"]["text"] == {"type": "string"}


@pytest.mark.parametrize(
    "written", ["list of " * 5000 + "text", "text" + "?" * 50_000, "one of a,,b"]
)
def test_type_that_unfolds_is_refused(written: str) -> None:
    """A type is short; one that is not is an attack or an accident."""
    assert len(faults(f"id: x\nsteps: []\ninputs: {{a: '{written}'}}")) == 1


def test_loops_and_jumps_say_what_they_need() -> None:
    """A loop without an end, or two at one node, is told where it stands."""
    assert faults("""
id: x
steps:
  - {id: a, use: b, for: "{{ inputs.x }}", while: "{{ true }}", max: 2}
  - {id: b, goto: a, with: {}, max: 3, retry: 1}
  - {id: c, use: b, max: 3, stuck_on: "{{ a }}"}
  - {id: d, use: b, until: "{{ a }}", on_error: stpo}
  - {id: e, use: b, for: {eac: 1}, on_error: {goto: a, mux: 1}, retry: {times: 0}}
  - {id: f, steps: [], retry: 3, for: {each: [], as: loop}}
""") == [
        "3:44: `while` cannot be combined with `for`. Nest two nodes",
        "4:22: `with` does not belong to a `goto`. Remove it",
        "4:40: `retry` does not belong to a `goto`. Remove it",
        "5:21: `max` needs a `while`, an `until` or a `goto`. Remove it",
        "5:29: `stuck_on` needs a `while` or an `until`. Remove it",
        "6:21: a loop needs a `max`. Add `max: …`",
        "6:49: `then`: Input should be 'stop', 'continue' or 'goto'",
        "7:26: `each` is missing. Add `each: …`",
        "7:27: unknown key 'eac'. Did you mean 'each'?",
        "7:56: unknown key 'mux'. Did you mean 'max'?",
        "7:80: `times`: Input should be greater than 0",
        "8:54: 'loop' is a reserved name. Choose another",
    ]


def test_changed_schema_changes_no_later_one() -> None:
    """A caller moves the definitions out of a schema, which the next caller needs."""
    messages = shape("messages")

    assert messages.schema().pop("$defs")

    assert messages.schema()["$defs"]
