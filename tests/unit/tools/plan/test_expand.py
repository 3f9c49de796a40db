"""The tool `plan.expand`: from a planner's answers to a layer, within bounds."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Documents, ToolFailed, read_document, read_layer

EXPAND = TOOLS["plan.expand"]
BASE = "id: base\ninputs: {background: text}\nsteps: []\n"
FIXED = {"protected": ["t/**"]}
KINDS = {
    "write": {"use": "workflow/code-step", "inputs": ["background"], "with": FIXED},
    "check": {"use": "code.test", "with": {"command": "pytest"}, "takes": []},
}


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    documents = Documents()
    documents.add(read_document(BASE, file="base.yaml"))
    return Context(workspace=tmp_path, services={Documents: documents})


def step(id: str, goal: str = "Do it.", **more: Any) -> dict[str, Any]:
    return {"id": id, "goal": goal, **more}


async def expand(ctx: Context, *answers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    given = {"base": "base", "kinds": KINDS, "answers": [{"steps": one} for one in answers]}
    return await EXPAND.check(ctx, given | more)


async def test_steps_become_a_layer_on_the_base(ctx: Context) -> None:
    """The layer is the whole of what the planner changed; the base stays as it is."""
    told = await expand(ctx, [step("First Step!", files=["a.py"]), step("check", kind="check")])

    assert told["problems"] == []
    assert told["open"] == []
    layer = read_layer(told["layer"], file="layer").document
    assert layer.of == "base"
    first, second = (one.node for one in layer.add)
    assert first == {
        "id": "first_step",
        "about": "Do it.",
        "use": "workflow/code-step",
        "with": {
            "protected": ["t/**"], "background": "{{ inputs.background }}",
            "goal": "Do it.", "files": ["a.py"], "notes": [],
        },
    }  # fmt: skip
    assert (second["use"], second["with"]) == ("code.test", {"command": "pytest"})
    assert [one["id"] for one in told["steps"]] == ["first_step", "check"]
    assert ctx.service(Documents).written["base"].value["steps"] == []


@pytest.mark.proves("003-28")
async def test_step_is_split_until_it_is_a_leaf_or_at_the_last_level(ctx: Context) -> None:
    """A planner that never says leaf ends at the depth limit."""
    told = await expand(ctx, [step("a", leaf=False), step("b")], max_depth=3)
    assert [one["id"] for one in told["open"]] == ["a"]
    for depth in (2, 3):
        told = await expand(
            ctx, [step("a", leaf=False)], open=told["open"], known=told["known"], max_depth=3
        )
        assert [one["depth"] for one in told["known"]][-1] == depth

    assert told["open"] == []
    assert [one["id"] for one in told["steps"]] == ["a/a_2/a_3", "b"]


@pytest.mark.proves("003-28")
async def test_leaf_whose_files_do_not_fit_the_budget_is_split(
    ctx: Context, tmp_path: Path
) -> None:
    """The planner's word alone is not enough: the step would not fit into the model's context."""
    (tmp_path / "big.py").write_text("word " * 1000)
    (tmp_path / "small.py").write_text("word")

    told = await expand(
        ctx, [step("a", files=["big.py"]), step("b", files=["small.py", "new.py"])], budget=100
    )

    assert [one["id"] for one in told["open"]] == ["a"]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([step("a", kind="shell")], "has the kind 'shell'; use one of write, check"),
        ([step(f"s{number}") for number in range(4)], "has 4 steps, and 3 are allowed"),
        ([], "There are no steps"),
        ([step("a", goal=" ")], "has no goal"),
    ],
)
async def test_plan_outside_the_bounds_is_refused_and_the_one_before_stays(
    ctx: Context, steps: list[dict[str, Any]], problem: str
) -> None:
    """What is wrong goes back to the planner; nothing of the answer is used."""
    told = await expand(ctx, steps, max_steps=3)

    assert problem in told["problems"][0]
    assert (told["layer"], told["document"], told["known"]) == ("", "", [])


async def test_goal_of_a_model_is_never_an_expression(ctx: Context) -> None:
    """A goal about templates is text, and cannot read what the step is not given."""
    goal = "Print {{ inputs.background }} and {% raw %}."

    told = await expand(ctx, [step("a", goal=goal)])

    (node,) = read_layer(told["layer"], file="layer").document.add
    assert node.node["with"]["goal"].count("{{ inputs") == 0
    assert told["steps"][0]["goal"] == goal


async def test_file_outside_of_the_workspace_is_an_error(ctx: Context) -> None:
    """A plan cannot make Hearth read other files of the machine."""
    with pytest.raises(ToolFailed, match="leads out of the workspace"):
        await expand(ctx, [step("a", files=["../secret"])])


async def test_answers_that_belong_to_nothing_are_errors(ctx: Context) -> None:
    """A document that mixes its lists up fails at once."""
    with pytest.raises(ToolFailed, match="2 answers for 1 steps"):
        await expand(ctx, [step("a")], [step("b")])
    with pytest.raises(ToolFailed, match="no workflow 'nosuch'"):
        await expand(ctx, [step("a")], base="nosuch")
