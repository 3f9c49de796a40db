"""Compile = validate = dry run: a plan that runs, or every fault before anything has run."""

import json

import pytest

from pipecatapp.application.preview.plan import plan_text
from pipecatapp.workflow import (
    InvalidDocument,
    Plan,
    Tool,
    compile_workflow,
    load_document,
)
from pipecatapp.workflow.plan import granting
from pipecatapp.workflow.running.agent import agent
from tests.unit.workflow.conftest import PROMPTS
from tests.unit.workflow.tools import TOOLS

ALL: dict[str, Tool] = {tool.name: tool for tool in (agent, *TOOLS)}
LIBRARY = """
id: library
inputs: {n: integer, word: {type: "one of a, b", default: a}}
steps: [{id: twice, use: number.double, with: {value: "{{ inputs.n }}"}}]
outputs: {value: {type: integer, value: "{{ twice.value }}"}, about: "{{ inputs.word }}"}
"""


def plan(text: str) -> Plan:
    workflow = load_document(text.lstrip("\n"), file="w.yaml")
    library = load_document(LIBRARY, file="library.yaml")
    return compile_workflow(
        workflow, ALL, PROMPTS, workflows={"library": library}, roles={"default": "auto"}
    )


def faults(text: str) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        plan(text)
    return [str(diagnostic).removeprefix("w.yaml:") for diagnostic in caught.value.diagnostics]


@pytest.mark.proves("001-21")
def test_every_fault_of_meaning_is_told_in_one_go() -> None:
    """Names, inputs, types and order are checked before anything runs."""
    assert faults("""
id: wrong
inputs: {n: integer, text: {type: text, default: 3}}
steps:
  - {id: a, use: text.uppr, with: {text: x}}
  - {id: b, use: text.upper, with: {txt: x}}
  - {id: c, use: number.double, with: {value: many}}
  - {id: d, use: number.double, with: {value: "{{ inputs.text }}"}}
  - {id: e, use: number.double, with: {value: "<{{ inputs.n }}>"}}
  - {id: f, use: text.upper, with: {text: "{{ inputs.txt }}{{ f.text }}{{ g.text }}{{ nob }}"}}
  - {id: g, use: text.upper, with: {text: "{{ b.words }}"}, prompt: [chat], returns: text}
  - {id: h, use: text.upper, with: {text: "{{ b.text | uppr }} {{ open( }}"}, needs: [i, j, b]}
  - {id: i, use: workflow/libraries}
  - {id: j, use: workflow/library, with: {m: 1, word: c}, model: fast}
  - {id: k, use: workflow/library, with: {n: "{{ b.text }}"}}
  - {id: l, use: llm, with: {text: x}, prompt: [chta]}
  - {id: m, use: llm, with: {text: x}, prompt: [short]}
  - {id: n, use: agent, with: {text: x, tools: [text.upper, text.lower], max_turns: 0}}
  - {id: o, use: text.upper, with: {text: a}, if: false}
  - id: p
    if: "{{ inputs.n > k.val }}"
    use: text.upper
    with: {text: a}
    else: [{id: q, use: text.upper, with: {text: "{{ p.text }}"}}]
  - {id: r, use: text.upper, with: {text: "{{ p.text }} {{ q.text }}"}}
outputs: {x: "{{ z.text }}", y: "{{ k.value.deeper }}"}
""") == [
        "2:50: Input should be a valid string",
        "4:18: there is no tool 'text.uppr'. Did you mean 'text.upper'?",
        "5:36: the input 'text' is missing. Add `text: …` to `with`",
        "5:37: there is no input 'txt'. Did you mean 'text'?",
        "6:47: value: Input should be a valid integer, unable to parse string as an integer",
        "7:47: 'value' takes integer, but this is string",
        "8:47: 'value' takes integer, but this is string",
        "9:43: 'f' cannot be read here: a node cannot read itself",
        "9:43: 'g' cannot be read here: it comes later in these steps",
        "9:43: inputs.txt: there is no 'txt' in it. Did you mean 'text'?",
        "9:43: there is no 'nob' here. Known: a, b, c, d, e, inputs, run",
        "10:43: b.words: there is no 'words' in it. Known: text",
        "10:61: the tool 'text.upper' does not take `prompt`. Remove it",
        "10:77: the tool 'text.upper' does not take `returns`. Remove it",
        "11:43: not an expression: unexpected '}', expected ')'",
        "11:87: 'i' cannot be needed here: it comes later in these steps",
        "11:90: 'j' cannot be needed here: it comes later in these steps",
        "12:18: there is no 'workflow/libraries'. Did you mean 'workflow/library'?",
        "13:42: the input 'n' is missing. Add `n: …` to `with`",
        "13:43: there is no input 'm'. Known: n, word",
        "13:55: Input should be 'a' or 'b'",
        "13:59: a workflow does not take `model`. Remove it",
        "14:46: 'n' takes integer, but this is string",
        "15:49: no prompt has the tag 'chta'. Did you mean 'chat'?",
        "16:48: no prompt has only tags of this list. Add the other tags of the one you mean",
        "17:61: there is no tool 'text.lower'. Did you mean 'text.lie'?",
        "17:85: max_turns: Input should be greater than or equal to 1",
        "18:10: 'o' can never run: its `if` is false. Remove it",
        "20:9: k.val: there is no 'val' in it. Did you mean 'value'?",
        "23:17: 'q' can never run: 'q' runs only when 'p' does not. Join them with first(a, b)",
        "24:10: 'r' can never run: 'q' runs only when 'p' does not. Join them with first(a, b)",
        "25:14: there is no 'z' here. Known: a, b, c, d, e, f, g, h, i, inputs, j, k, l, m, n, o,"
        " p, q, r, run",
        "25:33: k.value.deeper: there is no 'deeper' in a integer",
    ]


def test_cycle_is_named_with_its_way() -> None:
    """In a graph order comes from what is read, so a cycle could never start."""
    assert faults("""
id: round
graph:
  - {id: a, use: text.upper, with: {text: "{{ c.inside.text }}"}}
  - {id: b, use: text.upper, with: {text: "{{ a.text }}"}, needs: [d]}
  - id: c
    steps:
      - {id: inside, use: text.upper, with: {text: "{{ b.text }}"}}
  - {id: d, use: text.upper, with: {text: x}}
""") == ["3:10: a cycle: a → c → b → a. Remove one of these reads"]


def test_graph_may_read_what_stands_below() -> None:
    """Only steps have an order of their own."""
    found = plan("""
id: fine
graph:
  - {id: a, use: text.upper, with: {text: "{{ b.text }}"}}
  - {id: b, use: text.upper, with: {text: x}}
""")

    assert [(node.id, node.waits) for node in found.body.nodes] == [("a", ("b",)), ("b", ())]


FULL = """
id: full
about: Everything at once.
inputs: {text: text, n: {type: integer, default: 2}}
defaults: {timeout: 30s}
limits: {nodes: 50, wall: 5m, tokens: 1000}
steps:
  - id: think
    use: agent
    prompt: [chat, short]
    with: {text: "{{ inputs.text }}", tools: [text.upper]}
    stream: true
  - id: both
    graph:
      - {id: loud, use: text.upper, with: {text: "{{ think.text }}"}}
      - {id: lib, use: workflow/library, with: {n: "{{ inputs.n }}"}, needs: [loud]}
  - id: big
    if: "{{ both.lib.value > 3 }}"
    use: text.upper
    with: {text: big}
    else: [{id: small, use: log.append, with: {line: small}}]
outputs: {text: "{{ first(big.text, small.text) }}"}
"""


def test_graph_for_the_page_has_nodes_of_all_levels_and_two_kinds_of_edges() -> None:
    """The page draws what flows, and what only comes before."""
    graph = plan(FULL).graph()

    assert {node.path: (node.kind, node.parent) for node in graph.nodes} == {
        "think": ("agent", ""),
        "both": ("graph", ""),
        "both/loud": ("use", "both"),
        "both/lib": ("use", "both"),
        "both/lib/twice": ("use", "both/lib"),
        "big": ("use", ""),
        "small": ("use", ""),
    }
    assert {(edge.origin, edge.to, edge.kind) for edge in graph.edges} == {
        ("think", "both", "order"),
        ("think", "both/loud", "data"),
        ("both/loud", "both/lib", "order"),
        ("both", "big", "data"),
        ("big", "small", "order"),
    }
    assert set(json.loads(graph.model_dump_json())["edges"][0]) == {"from", "to", "kind"}


def test_plan_survives_as_canonical_json() -> None:
    """A run keeps its plan, and resumes with exactly that one."""
    found = plan(FULL)

    assert Plan.model_validate(json.loads(found.model_dump_json())) == found


def test_plan_text_shows_what_will_happen() -> None:
    """`hearth plan` shows tools with their effects, resolved prompts and models, and limits."""
    assert (
        plan_text(plan(FULL))
        == """\
workflow full (version 1): Everything at once.
  input  text: text
  input  n: integer = 2
  steps:
    think: agent [llm]
        model auto (role default)
        timeout 30 s
        with text: {{ inputs.text }}
        with tools: ['text.upper']
        prompt | You are Hearth.
        prompt |
        prompt | Be short.
    both: graph
      graph:
        loud: text.upper [pure]
            after think
            timeout 30 s
            with text: {{ think.text }}
        lib: workflow/library
            after loud
            with n: {{ inputs.n }}
    big: text.upper [pure]
        if {{ both.lib.value > 3 }}
        after both
        timeout 30 s
        with text: big
    small: log.append [external]
        else of big
        timeout 30 s
        with line: small
  output text: any = {{ first(big.text, small.text) }}
workflow library (version 1)
  input  n: integer
  input  word: one of a, b = 'a'
  steps:
    twice: number.double [pure]
        with value: {{ inputs.n }}
  output value: integer = {{ twice.value }}
  output about: any = {{ inputs.word }}
effects: external, llm, pure
worst case of own steps: 15 + 1 for each tool that think calls
worst case of own model calls: 8
limits: nodes 50, depth 8, wall 300, tokens 1000
"""
    )


def test_fault_in_a_workflow_that_is_used_names_its_own_file() -> None:
    """What is wrong further down is found before anything runs, where it stands."""
    broken = load_document("id: broken\nsteps: [{id: a, use: nope}]", file="broken.yaml")
    outer = load_document("id: outer\nsteps: [{id: a, use: workflow/broken}]", file="outer.yaml")

    with pytest.raises(InvalidDocument, match=r"broken\.yaml:2:22: there is no tool 'nope'"):
        compile_workflow(outer, ALL, workflows={"broken": broken})


def test_loops_and_jumps_are_checked_by_meaning() -> None:
    """What cannot be read in a visit, and jumps that lead nowhere or on for ever."""
    assert faults("""
id: wrong
inputs: {n: integer, many: list of integer}
steps:
  - {id: a, use: number.double, with: {value: "{{ itme }}"}, for: "{{ inputs.many }}"}
  - {id: b, use: text.upper, with: {text: "{{ item }}"}, for: {each: "{{ inputs.n }}", as: a}}
  - {id: c, use: number.double, with: {value: "{{ prev.val }}"}, for: {each: [1], parallel: 2}}
  - {id: d, use: number.double, with: {value: 1}, until: "{{ d.val > 1 }}", max: 2}
  - {id: e, use: text.upper, with: {text: "{{ a.all[0].text }}{{ a.value }}{{ prev.x }}"}}
  - {id: f, goto: e}
  - {id: g, goto: nowhere, max: 2}
  - {id: h, use: log.append, with: {line: x}, retry: 2}
  - {id: i, goto: k}
  - {id: j, use: text.upper, with: {text: "{{ f.to }}"}}
  - {id: k, use: workflow/library, with: {n: 1}, retry: 1, on_error: {goto: a}}
  - id: l
    graph:
      - {id: m, use: text.upper, with: {text: x}}
      - {id: n, goto: m, max: 3}
outputs: {x: "{{ item }}"}
""") == [
        "4:47: there is no 'itme' here. Did you mean 'item'?",
        "5:43: there is no 'item' here. Known: a, inputs, loop, prev, run",
        "5:63: the name 'a' is taken. Choose another with `as`",
        "5:70: `for` needs a list, but this is integer",
        "6:47: 'prev' cannot be read here: these visits run at the same time",
        "7:58: d.val: there is no 'val' in it. Did you mean 'value'?",
        "8:43: a.all.0.text: there is no 'text' in it. Known: value",
        "8:43: a.value: there is no 'value' in it. Known: all, count, last",
        "8:43: prev.x: there is no 'x' in it. Known: a, b, c, d, e, f, g, h, i, j, k, l",
        "9:19: a jump back needs a `max`. Add `max: …`",
        "10:19: there is no 'nowhere' among these steps. Known: a, b, c, d, e, f, g, h, i, j, k, l",
        "11:47: `retry` is unsafe here: log.append may have done something already. Remove it",
        "13:10: 'j' can never run: 'i' always passes over it. Give 'i' an `if`",
        "13:43: 'f' cannot be read here: a goto has no output",
        "14:77: a jump back needs a `max`. Add `max: …`",
        "18:23: only `steps` have an order to jump in. Use an `if` instead",
        "19:14: there is no 'item' here. Known: a, b, c, d, e, f, g, h, i, inputs, j, k, l, run",
    ]


def test_jump_leads_into_no_other_scope_and_out_of_none() -> None:
    """A scope is one node to its parent: nobody enters it in the middle, or leaves it so."""
    assert faults("""
id: wrong
steps:
  - {id: a, use: text.upper, with: {text: x}}
  - id: b
    steps:
      - {id: c, goto: a, max: 2}
      - {id: d, use: text.upper, with: {text: x}}
  - {id: e, use: text.fail, with: {text: x}, on_error: {goto: d, max: 2}}
  - {id: f, goto: d, max: 2}
""") == [
        "6:23: there is no 'a' among these steps. Known: c, d",
        "8:63: there is no 'd' among these steps. Known: a, b, e, f",
        "9:19: there is no 'd' among these steps. Known: a, b, e, f",
    ]


def test_plan_text_tells_how_often_and_what_then() -> None:
    """Who reads a plan sees every loop with its bound, and where a failure leads."""
    text = plan_text(
        plan("""
id: often
inputs: {many: list of integer}
steps:
  - id: a
    use: number.double
    for: {each: "{{ inputs.many }}", parallel: 3}
    with: {value: "{{ item }}"}
    retry: {times: 2, wait: 1s}
    on_error: {goto: c}
  - {id: b, steps: [], until: "{{ loop.index > 1 }}", max: 4, on_max: ask, stuck_on: "{{ b }}"}
  - {id: c, goto: a, if: "{{ loop.first }}", max: 2, on_max: continue}
""")
    )

    assert text[text.index("  steps:") :] == (
        """  steps:
    a: number.double [pure]
        for each, 3 at a time: {{ inputs.many }}
        2 times again when it fails
        on error goto c
        with value: {{ item }}
    b: steps
        until, 4 visits at most, then ask: {{ loop.index > 1 }}
        stuck on {{ b }}
    c: goto a
        if {{ loop.first }}
        back to a 2 times at most, then continue
effects: pure
worst case of own steps: 21 + 6 for each further visit of b that a person allows + 9 for each item of a
worst case of own model calls: 0
limits: nodes 1000, depth 8
"""  # noqa: E501
    )


def test_plan_text_tells_what_is_granted() -> None:
    """Who did not ask for an effect reads that the run has it not."""
    few = plan("id: few\nallow: [pure, read]\nsteps: [{id: a, use: text.upper, with: {text: a}}]")

    assert "\neffects: pure; granted: pure, read\n" in plan_text(few)
    assert "\neffects: pure; granted: pure\n" in plan_text(granting(few, ["pure", "llm"]))
