"""Checks of the tool or workflow that a node uses."""

from collections.abc import Mapping
from typing import Any, Final

from pipecatapp.workflow.compiling import checks
from pipecatapp.workflow.compiling.library import Entry
from pipecatapp.workflow.compiling.names import Visible
from pipecatapp.workflow.compiling.reads import Reads
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.model import ModelPart, Retry
from pipecatapp.workflow.document.yaml_text import Path
from pipecatapp.workflow.expressions import expressions, is_expression
from pipecatapp.workflow.plan import Kind
from pipecatapp.workflow.running.expansion import PLAN_RUN
from pipecatapp.workflow.tool import EFFECTS, REPEATABLE, Effect, Json, Tool
from pipecatapp.workflow.tool_names import current_name, is_pattern

KINDS: Final[Mapping[str, Kind]] = {"agent": "agent", PLAN_RUN: "plan"}
"""Tools whose nodes the engine opens itself."""


class Uses(Reads):
    """Compiles what depends on the thing that a node uses."""

    def _use_workflow(self, entry: Entry, visible: Visible) -> dict[str, Any]:
        node, path = entry.node, entry.path
        used = self.library.workflows.get(str(node.use).removeprefix("workflow/"))
        self._check_modifiers(entry, "a workflow", takes=())
        if used is None:
            mend = did_you_mean(str(node.use), [f"workflow/{id}" for id in self.library.workflows])
            self._fault((*path, "use"), f"there is no {node.use!r}", mend)
            return {"kind": "workflow", "use": node.use}
        self.library.want(used)
        schema = used.input_schema()
        self._found(path, checks.keys(node.given, schema, filled=(), short=()))
        for name, value in node.given.items():
            if name in used.document.inputs and not list(expressions(value)):
                self._typed((*path, "with", name), used.document.inputs[name].type, value)
        self._check_kinds(path, node.given, schema, visible)
        return {"kind": "workflow", "use": node.use, "version": used.version, "given": node.given}

    def _use_tool(self, entry: Entry, tool: Tool, visible: Visible) -> dict[str, Any]:
        node, path, fields = entry.node, entry.path, tool.takes.model_fields
        messages = "messages" in fields and tool.effect == "llm"
        model = (
            node.model
            or self.document.defaults.model
            or (ModelPart.model_validate({}) if "default" in self.library.roles else None)
        )
        modifiers = {"model": "model" in fields, "prompt": messages, "returns": messages}
        taken = [key for key, fine in modifiers.items() if fine]
        self._check_modifiers(entry, f"the tool {tool.name!r}", takes=taken)
        short = {"text"} if messages and "text" not in fields else set()
        schema = tool.input_schema()
        filled = {name for name, fine in (("model", model), ("messages", messages)) if fine}
        self._found(path, checks.keys(node.given, schema, filled=filled, short=short))
        self._found(path, checks.literals(node.given, tool.takes, short))
        self._check_kinds(path, node.given, schema, visible)
        self._check_tools(path, tool, node.given)
        self._check_secrets(path, tool, node.given)
        again = tool.effect in REPEATABLE
        if node.retry is not None and not again:
            told = f"`retry` is unsafe here: {tool.name} may have done something already"
            self._fault((*path, "retry"), told, "Remove it", key=True)
        defaults = self.document.defaults
        retry = node.retry or (defaults.retry if again and tool.name != "agent" else None)
        return {
            "kind": KINDS.get(tool.name, "use"),
            "use": tool.name,
            "version": tool.version,
            "effect": tool.effect,
            "given": node.given,
            "model": model.model_dump() if model and "model" in fields else None,
            "messages": messages,
            "offers": self._offers(tool, node.given),
            "system": self._system(path, node.prompt),
            "returns": node.returns,
            "timeout": node.timeout or defaults.timeout,
            "cache": node.cache or defaults.cache,
            **retries(retry),
        }

    def _check_tools(self, path: Path, tool: Tool, given: Json) -> None:
        """Check that the tools of an agent exist, and that a pattern such as `mcp/*` may
        match none."""
        offered = given.get("tools") if tool.name == "agent" else None
        for index, name in enumerate(offered if isinstance(offered, list) else []):
            if not isinstance(name, str) or "{{" in name or is_pattern(name):
                continue
            if current_name(name) not in self.library.tools:
                mend = did_you_mean(name, self.library.tools)
                self._fault((*path, "with", "tools", index), f"there is no tool {name!r}", mend)
        fixed = given.get("tool_inputs") if tool.name == "agent" else None
        for name, inputs in fixed.items() if isinstance(fixed, dict) else ():
            self._check_tool_inputs((*path, "with", "tool_inputs", name), str(name), inputs)

    def _check_tool_inputs(self, path: Path, name: str, inputs: Any) -> None:
        """Check that the inputs that a document sets for a tool of its agent exist."""
        tool = self.library.tools.get(current_name(name))
        if tool is None:
            mend = did_you_mean(name, self.library.tools)
            self._fault(path, f"there is no tool {name!r}", mend, key=True)
        elif isinstance(inputs, dict):
            schema = tool.input_schema()
            known = checks.keys(inputs, schema, filled=schema.get("required", ()), short=())
            for found in (*known, *checks.literals(inputs, tool.takes, ())):
                self._fault((*path, *found.path[1:]), found.message, found.mend, key=found.key)

    def _check_secrets(self, path: Path, tool: Tool, given: Json) -> None:
        """Check that the document's project names the secrets of a program."""
        asked = given.get("secrets") if tool.effect == "exec" else None
        project = self.library.projects.get(self.document.project or "")
        named = project.values.get("secrets", {}) if project else {}
        for variable, name in asked.items() if isinstance(asked, dict) else ():
            if isinstance(name, str) and not is_expression(name) and name not in named:
                otherwise = "Name it under `secrets` of a project, and the project by `project: …`"
                mend = did_you_mean(name, named, otherwise=otherwise)
                told = f"there is no secret {name!r} here"
                self._fault((*path, "with", "secrets", variable), told, mend)

    def _offers(self, tool: Tool, given: Json) -> list[Effect]:
        """Return the effects of the literal tools of an agent, and those that the steps of a plan
        may have.
        """
        if tool.name == PLAN_RUN:
            allowed = given.get("allow")
            return sorted(EFFECTS.intersection(allowed if isinstance(allowed, list) else EFFECTS))
        named = given.get("tools") if tool.name == "agent" else None
        names = [current_name(str(name)) for name in (named if isinstance(named, list) else ())]
        return sorted({self.library.tools[n].effect for n in names if n in self.library.tools})

    def _system(self, path: Path, tags: list[str]) -> str:
        """Return the prompts whose tags are all requested, joined."""
        known = {tag for prompt in self.library.prompts for tag in prompt.tags}
        for index, tag in enumerate(tags):
            if tag not in known:
                self._fault(
                    (*path, "prompt", index),
                    f"no prompt has the tag {tag!r}",
                    did_you_mean(tag, known),
                )
        chosen = [
            prompt.text.strip()
            for prompt in self.library.prompts
            if prompt.tags and prompt.tags <= set(tags)
        ]
        if tags and not chosen and known.issuperset(tags):
            self._fault(
                (*path, "prompt"),
                "no prompt has only tags of this list",
                "Add the other tags of the one you mean",
            )
        return "\n\n".join(chosen)


def retries(retry: Retry | None) -> dict[str, Any]:
    """Return the fields of the plan for `retry`."""
    return {"retries": retry.times, "wait": retry.wait or 0.0} if retry else {}
