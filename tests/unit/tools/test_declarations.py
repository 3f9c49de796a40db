"""What holds for every tool: declared in full, checked on both sides, tested."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Tool, ToolFailed

ROOT = Path(__file__).parents[3]
ERROR: dict[str, Any] = {"type": "E", "message": "", "file": None, "line": None}
TESTED: dict[str, Any] = {
    "ok": True, "exit_code": 0, "stopped": None, "per_test": True, "passed": 0, "failed": 0,
    "errors": 0, "skipped": 0, "tests": [], "tests_left_out": 0, "error": None, "stdout": "",
    "stderr": "", "seconds": 0.0,
}  # fmt: skip
EXAMPLES: dict[str, dict[str, Any]] = {
    "llm": {"messages": [{"role": "user", "content": "x"}]},
    "llm.json": {"messages": [{"role": "user", "content": "x"}], "returns": "text"},
    "model.evaluate": {},
    "value": {"value": 1},
    "fix.json": {"text": "x"},
    "fix.yaml": {"text": "x"},
    "fix.markdown": {"text": "x"},
    "time.now": {},
    "wait": {"seconds": 0},
    "human.ask": {"question": "x"},
    "human.note": {"text": "x"},
    "file.read": {"path": "x"},
    "file.list": {},
    "file.write": {"path": "x", "text": "x"},
    "file.delete": {"path": "x"},
    "doc.read": {"path": "x.pdf"},
    "doc.write": {"path": "x.pdf", "text": "x"},
    "doc.check": {"path": "x.pdf"},
    "doc.pages": {"path": "x.pdf"},
    "doc.review": {"pictures": ["x.png"]},
    "mcp.save": {"server": "x", "uri": "x", "path": "x"},
    "home.act": {"text": "x"},
    "home.confirm": {"text": "x", "tool": "x", "input": {}},
    "workspace.state": {},
    "workspace.reset": {},
    "workspace.deliver": {"about": "x"},
    "code.run": {"code": "x"},
    "code.install": {"packages": ["x"]},
    "code.test": {"command": "pytest"},
    "code.localise": {"command": "pytest"},
    "code.fix": {"command": "pytest"},
    "code.edit": {"answer": "x"},
    "code.language": {"text": "x"},
    "code.symbols": {},
    "code.context": {},
    "code.map": {},
    "code.approach": {},
    "code.outcome": {"model": "m", "format": "blocks", "applied": True, "green": True},
    "code.memory": {},
    "check.structure": {},
    "check.syntax": {},
    "code.recall": {"error": ERROR},
    "code.remember": {"before": TESTED, "after": None},
    "git.branch": {"name": "x"},
    "git.commit": {"branch": "x", "message": "x"},
    "git.merge": {"branch": "x"},
    "git.push": {"branch": "x", "remote": "/x"},
    "git.diff": {"since": "x"},
    "git.log": {"branch": "x"},
    "plan.expand": {"base": "x", "kinds": {}, "answers": []},
    "plan.revise": {"base": "x", "changes": []},
    "plan.todo": {},
    "plan.steps": {"text": "- Do it."},
    "plan.evidence": {"steps": []},
    "llm.tokens": {"messages": [{"role": "user", "content": "x"}]},
    "llm.cull": {
        "answers": [
            {
                "text": "x",
                "prefix": "",
                "tokens": [],
                "mean_logprob": 0.0,
                "perplexity": 1.0,
                "finish_reason": "stop",
                "model": "m",
            }
        ]
    },
    "context.propose": {"base": "x", "kinds": {}, "wanted": []},
    "context.merge": {},
    "check.progress": {"tries": []},
    "check.alignment": {"structure": []},
    "workflow.guide": {"allow": ["pure"]},
    "runs.recent": {},
    "runs.digest": {"text": "x"},
    "workflow.check": {"document": "x", "allow": ["pure"]},
    "run.start": {"workflow": "x"},
    "autonomy.start": {"text": "x"},
    "tracker.list": {},
    "tracker.show": {"id": "1"},
    "tracker.create": {"title": "x", "text": "x"},
    "tracker.comment": {"id": "1", "text": "x"},
    "tracker.close": {"id": "1"},
    "ci.status": {"commit": "x"},
    "scm.propose": {"branch": "x", "title": "x"},
    "scm.proposals": {},
    "message.send": {"text": "x"},
    "task.find": {"text": "x"},
    "task.save": {"title": "x", "base": "x", "layers": []},
    "project.facts": {},
    "project.entry": {"files": ["main.py"]},
    "project.docs": {},
    "project.tree": {},
    "prompt.find": {},
    "browser.open": {"address": "x"},
    "browser.read": {},
    "browser.find": {},
    "browser.act": {"action": "back"},
    "browser.shot": {},
    "image.ask": {"path": "x.png", "question": "x"},
    "speech.say": {"text": "x", "path": "x.wav"},
    "speech.hear": {"path": "x.wav"},
    "http.get": {"url": "https://example.org"},
    "http.download": {"url": "https://example.org", "path": "x"},
    "http.request": {"url": "https://example.org"},
    "search.web": {"query": "x"},
    "search.files": {"query": "x"},
    "rag.search": {"query": "x"},
    "rag.update": {"source": "x"},
    "image.make": {"prompt": "x", "path": "x.png"},
    "image.chart": {"kind": "bar", "path": "x.png"},
    "image.diagram": {"kind": "flow", "path": "x.png"},
    "cluster.status": {},
    "note.save": {"text": "x"},
    "note.find": {},
    "conversation.recall": {},
    "items.new": {"items": []},
}
EVERY_TOOL = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


class Nonsense(BaseModel):
    """What no tool gives."""

    nonsense: int = 1


@EVERY_TOOL
@pytest.mark.proves("001-10")
async def test_tool_declares_both_sides_and_both_are_checked(tool: Tool) -> None:
    """A wrong input must not reach the tool, and a wrong output must not reach the workflow."""
    calls: list[dict[str, Any]] = []

    async def gives_nonsense(ctx: Context, **given: Any) -> BaseModel:
        calls.append(given)
        return Nonsense()

    watched = replace(tool, run=gives_nonsense)

    assert tool.input_schema()["type"] == tool.output_schema()["type"] == "object"
    assert tool.output_schema()["properties"]
    with pytest.raises(ToolFailed, match="no_such_input"):
        await watched.check(Context(), {**EXAMPLES[tool.name], "no_such_input": 1})
    assert calls == []
    with pytest.raises(ToolFailed, match="Nonsense"):
        await watched.check(Context(), EXAMPLES[tool.name])
    assert len(calls) == 1


@EVERY_TOOL
def test_tool_says_what_each_of_its_inputs_and_outputs_is(tool: Tool) -> None:
    """The model that is offered the tool has nothing else to go by."""
    assert tool.about.endswith(".")
    for schema in (tool.input_schema(), tool.output_schema()):
        for name, facts in schema["properties"].items():
            assert facts.get("description"), name


@EVERY_TOOL
@pytest.mark.proves("002-32", "004-39")
def test_tool_has_tests(tool: Tool) -> None:
    """A tool touches the world; one that nobody tests will touch it wrongly."""
    module = Path(*tool.run.__module__.split(".")[2:])
    places = [ROOT / "tests" / layer / "tools" / module.parent for layer in ("unit", "integration")]
    (file,) = [place / f"test_{module.name}.py" for place in places
               if (place / f"test_{module.name}.py").exists()]  # fmt: skip

    text = file.read_text(encoding="utf-8")

    assert f'TOOLS["{tool.name}"]' in text
    assert "async def test_" in text
