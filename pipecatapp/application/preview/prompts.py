"""Prompts that the models of a run would receive, as far as its inputs determine them."""

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Environment
from pydantic import BaseModel

from pipecatapp.workflow import Plan
from pipecatapp.workflow.expressions import (
    ExpressionError,
    Meter,
    expression,
    is_expression,
    render,
    text_of,
)
from pipecatapp.workflow.planning import WIDEST, Body, Json, PlanNode, request_of, with_messages
from pipecatapp.workflow.syntax import ShapeError


class PreviewPrompt(BaseModel):
    """The messages of a step that calls a model; unknown values are shown as expressions."""

    path: str
    messages: list[dict[str, Any]]


def preview_prompts(plan: Plan, inputs: Json) -> list[PreviewPrompt]:
    """Return the prompts of each node that calls a model, once for all its visits; `inputs` are
    valid."""
    return _Telling(plan, request_of(inputs)).body(plan.body, "", inputs, (plan.workflow,))


class _Telling:
    def __init__(self, plan: Plan, request: str) -> None:
        self._plan, self._request = plan, request
        self._found: list[PreviewPrompt] = []

    def body(
        self, body: Body, path: str, inputs: Json, stack: tuple[str, ...]
    ) -> list[PreviewPrompt]:
        known = _Known(
            {"inputs": inputs, "run": {"request": self._request}, "project": body.project},
            whole={"project"} | ({"inputs"} if inputs.keys() == body.inputs.keys() else set()),
        )
        self._scope(body.nodes, path, known, stack)
        return self._found

    def _scope(
        self, nodes: tuple[PlanNode, ...], path: str, known: "_Known", stack: tuple[str, ...]
    ) -> None:
        for node in nodes:
            at = f"{path}/{node.id}" if path else node.id
            given = {name: known.render(value) for name, value in node.given.items()}
            if node.messages and node.cache != "pin":
                plain = {name: value for name, (value, _) in given.items()}
                self._found.append(PreviewPrompt(path=at, messages=self._told(node, plain)))
            name = node.use.removeprefix("workflow/")
            if node.kind == "workflow" and name not in stack and len(self._found) < WIDEST:
                body = self._plan.bodies[name]
                inner = {name: given.default for name, given in body.inputs.items()}
                inner = {n: v for n, v in inner.items() if not body.inputs[n].required}
                inner = {n: v for n, v in inner.items() if n not in given}
                inner |= {name: value for name, (value, sure) in given.items() if sure}
                self.body(body, at, inner, (*stack, name))
            self._scope(node.nodes, at, known, stack)

    def _told(self, node: PlanNode, given: Json) -> list[dict[str, Any]]:
        messages = given.get("messages")
        if isinstance(messages, str):
            given = {**given, "messages": [{"role": "messages", "content": messages}]}
        try:
            return list(with_messages(node, given, self._request, ())["messages"])
        except ShapeError as error:
            return [{"role": "error", "content": str(error)}]


class _Known:
    """Names that have a value before anything has run."""

    def __init__(self, names: Mapping[str, Any], whole: set[str]) -> None:
        self._names, self._whole = names, whole

    def render(self, value: Any) -> tuple[Any, bool]:
        """It with every expression evaluated that can be, and whether that were all."""
        if isinstance(value, dict):
            found = {key: self.render(inner) for key, inner in value.items()}
            plain = {key: inner for key, (inner, _) in found.items()}
            return plain, all(sure for _, sure in found.values())
        if isinstance(value, list | tuple):
            items = [self.render(inner) for inner in value]
            return [item for item, _ in items], all(sure for _, sure in items)
        if not is_expression(value):
            return value, True
        if self._is_known(value):
            try:
                return render(value, self._names), True
            except ExpressionError:
                return value, False
        return "".join(self._texts(value)), False

    def _texts(self, source: str) -> Iterator[str]:
        for piece in pieces(source):
            known = is_expression(piece) and self._is_known(piece)
            try:
                yield text_of(render(piece, self._names), Meter()) if known else piece
            except ExpressionError:
                yield piece

    def _is_known(self, source: str) -> bool:
        return all(self._has(read.path) for read in expression(source).reads)

    def _has(self, path: tuple[str | int, ...]) -> bool:
        name = str(path[0])
        if name not in self._names or name in self._whole:
            return name in self._names
        return len(path) > 1 and path[1] in self._names[name]


def pieces(source: str) -> Iterator[str]:
    """A string of a document cut into its expressions, braces and all, and the text between."""
    found = ""
    for _, kind, text in Environment(autoescape=False).lex(source):
        if kind == "variable_begin" and found:
            yield found
            found = ""
        found += text
        if kind == "variable_end":
            yield found
            found = ""
    if found:
        yield found
