"""Which inputs of each tool the author of a document sets, and which a model that is given it."""

from typing import Final, Literal

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Tool
from pipecatapp.workflow.running.agent import agent

A: Final = "author"
M: Final = "model"
HTTP: Final[dict[str, Literal["author", "model"]]] = {
    "url": M,
    "headers": M,
    "hosts": A,
    "secrets": A,
    "seconds": A,
    "max_bytes": A,
    "statuses": A,
}
CHART: Final = (
    *("kind", "series", "labels", "title", "subtitle", "x_title", "y_title", "stacked"),
    *("horizontal", "bins", "theme", "width", "height", "scale"),
)
DIAGRAM: Final = (
    *("kind", "title", "subtitle", "nodes", "edges", "direction", "tasks", "columns", "rows"),
    *("theme", "scale"),
)
SET_BY: Final[dict[str, dict[str, Literal["author", "model"]]]] = {
    "llm": {
        "messages": M,
        "model": A,
        "tools": A,
        "temperature": M,
        "max_tokens": A,
        "response_format": M,
        "fallback": A,
    },
    "llm.json": {
        "messages": M,
        "returns": M,
        "model": A,
        "attempts": A,
        "temperature": M,
        "max_tokens": A,
        "fallback": A,
        "repair": A,
    },
    "model.evaluate": {"model": A, "seconds": A},
    "value": {"value": M},
    "fix.json": {"text": M, "returns": M},
    "fix.yaml": {"text": M},
    "fix.markdown": {"text": M},
    "time.now": {"zone": M},
    "wait": {"seconds": M, "until": M},
    "human.ask": {
        "question": M,
        "choices": M,
        "returns": M,
        "show": M,
        "after": A,
        "otherwise": A,
        "by": A,
        "model": A,
    },
    "human.note": {"text": M},
    "file.read": {"path": M, "encoding": M, "offset": M, "limit": M},
    "file.list": {"path": M, "limit": M},
    "file.write": {"path": M, "text": M, "mode": M, "encoding": M, "executable": M},
    "file.delete": {"path": M},
    "doc.read": {"path": M, "page": M, "start": M, "budget": M},
    "doc.write": {
        "path": M,
        "text": M,
        "source": M,
        "title": M,
        "language": M,
        "paper": M,
        "contents": M,
    },
    "doc.check": {"path": M, "ignore": M},
    "doc.pages": {"path": M, "into": M, "first": M, "last": M, "most": M, "dpi": M},
    "doc.review": {"pictures": M, "about": M, "model": A},
    "workspace.state": {},
    "workspace.reset": {"to": M},
    "workspace.deliver": {"about": M},
    "git.branch": {"name": M, "at": M},
    "git.commit": {"branch": M, "message": M},
    "git.merge": {"branch": M},
    "git.push": {"branch": M, "remote": A},
    "git.diff": {"since": M, "until": M},
    "git.log": {"branch": M, "limit": M},
    "plan.expand": {
        "base": A,
        "kinds": A,
        "answers": M,
        "open": M,
        "known": M,
        "budget": A,
        "max_steps": A,
        "max_depth": A,
    },
    "plan.revise": {"base": A, "changes": M, "layers": A, "note": A},
    "plan.todo": {"taken": M, "files": M},
    "context.propose": {
        "base": A,
        "kinds": A,
        "wanted": M,
        "merged": M,
        "layers": A,
        "limit": A,
    },
    "context.merge": {"languages": M, "at_least": A, "limit": A},
    "check.progress": {"tries": M, "repeats": A},
    "check.alignment": {"structure": M, "changed": M, "allowed": M},
    "workflow.guide": {"allow": A, "budget": A},
    "runs.recent": {"days": M, "limit": M},
    "runs.digest": {"text": M, "limit": M},
    "workflow.check": {"document": M, "allow": A, "previous": A, "before": A, "last": A},
    "run.start": {"workflow": A, "inputs": A},
    "autonomy.start": {"text": M, "max_rounds": A},
    "message.send": {"text": M},
    "tracker.list": {"state": M},
    "tracker.show": {"id": M},
    "tracker.create": {"title": M, "text": M, "labels": M},
    "tracker.comment": {"id": M, "text": M},
    "tracker.close": {"id": M},
    "ci.status": {"commit": M},
    "scm.propose": {"branch": M, "title": M, "into": M, "text": M},
    "scm.proposals": {},
    "task.find": {"text": M, "tags": M, "extends": A, "limit": M},
    "task.save": {"title": M, "base": A, "layers": A, "about": M, "tags": M},
    "code.run": {
        "code": M,
        "language": M,
        "command": M,
        "stdin": M,
        "environment": A,
        "secrets": A,
        "packages": A,
        "image": A,
        "alive": A,
        "seconds": A,
        "memory_mb": A,
        "processes": A,
        "disk_mb": A,
    },
    "code.install": {"packages": M, "must_succeed": A},
    "code.test": {
        "command": M,
        "folder": M,
        "tests": M,
        "environment": A,
        "packages": A,
        "seconds": A,
        "memory_mb": A,
        "processes": A,
        "disk_mb": A,
    },
    "code.fix": {
        "command": M,
        "folder": M,
        "may_touch": A,
        "protected": A,
        "attempts": A,
        "environment": A,
        "packages": A,
        "seconds": A,
        "memory_mb": A,
        "processes": A,
        "disk_mb": A,
        "suspects": M,
    },
    "code.localise": {
        "command": M,
        "folder": M,
        "failing": M,
        "top": M,
        "passing": M,
        "environment": A,
        "packages": A,
        "seconds": A,
        "memory_mb": A,
        "processes": A,
        "disk_mb": A,
    },
    "code.edit": {"answer": M, "path": M, "may_touch": A, "protected": A},
    "code.language": {"text": M, "path": M},
    "code.symbols": {"path": M, "limit": M},
    "code.map": {"symbols": M, "text": M, "budget": M},
    "code.context": {
        "error": M,
        "output": M,
        "suspects": M,
        "files": M,
        "protected": M,
        "model": A,
        "budget": A,
        "wide": A,
    },
    "code.approach": {"model": A, "format": A, "patches": A},
    "code.outcome": {"model": M, "format": M, "applied": M, "green": M},
    "code.memory": {"path": M, "name": M, "text": M, "limit": M},
    "check.syntax": {"files": M},
    "check.structure": {"lines": A, "files": A, "rules": A, "ignored": A},
    "code.recall": {"error": M, "suspects": M, "limit": M},
    "code.remember": {
        "before": M,
        "after": M,
        "other_before": M,
        "other_after": M,
        "fix": M,
    },
    "project.facts": {},
    "project.entry": {"files": M, "command": M},
    "project.docs": {"text": M, "budget": M},
    "prompt.find": {"text": M, "tags": M, "limit": M},
    "project.tree": {"depth": M, "limit": M},
    "speech.say": {"text": M, "path": M, "voice": M},
    "speech.hear": {"path": M, "language": M},
    "http.get": {**HTTP, "method": M, "retries": A},
    "http.download": {**HTTP, "path": M},
    "http.request": {**HTTP, "method": M, "data": M, "text": M},
    "search.web": dict.fromkeys(
        ("query", "categories", "language", "time_range", "page", "limit", "budget"), M
    ),
    "search.files": {"query": M, "globs": M, "limit": M, "budget": M},
    "image.make": {
        "prompt": M,
        "path": M,
        "width": M,
        "height": M,
        "seed": M,
        "model": A,
        "backend": A,
        "drawing": A,
    },
    "image.chart": dict.fromkeys(("path", "file", "x", "y", "every", "combine", *CHART), M),
    "image.diagram": dict.fromkeys(("path", *DIAGRAM), M),
    "cluster.status": {},
    "note.save": {"text": M, "tags": M},
    "note.find": {"query": M, "limit": M},
    "conversation.recall": {"conversation": M, "model": A, "budget": M, "turns": M},
    "items.new": {"items": M, "by": M, "memory": A, "limit": M},
}
"""Limits, environment, models and answers in a person's place are an author's."""


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_input_is_set_by_the_author_or_by_the_model(tool: Tool) -> None:
    """A new input is on the list before a model can set it; a model has no say about its limits."""
    expected = SET_BY[tool.name]
    offered = tool.schema_for_models()

    assert tool.takes.model_fields.keys() == expected.keys()
    assert tool.author_inputs == {name for name, by in expected.items() if by == A}
    assert offered["properties"].keys() == {name for name, by in expected.items() if by == M}
    assert set(offered.get("required", ())) <= offered["properties"].keys()


def test_agent_is_no_tool_of_an_agent() -> None:
    """So all that it takes, the number of turns among it, is an author's."""
    assert agent.name not in TOOLS
