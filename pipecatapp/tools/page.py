"""The reference page of the tools, made of their declarations."""

import json
from collections.abc import Iterator
from typing import Any

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Tool

HEAD = """# Tools

Written by `make docs` from the code; do not edit.

Workflows name these tools with `use`, agents with `tools`. Input is validated before a tool runs
and output after it. The effect determines whether a resumed run repeats an interrupted call:
calls with the effect `external` are repeated only if the tool is idempotent, all other calls are
repeated.
"""


def tools_page() -> str:
    """The Markdown of `docs/reference/tools.md`."""
    return "\n".join([HEAD, *(line for tool in TOOLS.values() for line in _section(tool))])


def _section(tool: Tool) -> Iterator[str]:
    yield f"## `{tool.name}`"
    yield ""
    yield tool.about
    yield ""
    told = f"Effect `{tool.effect}`{', idempotent' * tool.idempotent}, version {tool.version}"
    depends = ", depending on the input" if callable(tool.approve) else ""
    yield f"{told}; approval of a model's call: `{tool.approval({})}`{depends}."
    yield ""
    if authors := [f"`{name}`" for name in tool.takes.model_fields if name in tool.author_inputs]:
        yield f"Set by documents, never by a model: {', '.join(authors)}."
        yield ""
    if tool.needs:
        yield f"Needs {' and '.join(str(need) for need in tool.needs)}."
        yield ""
    taken, given = tool.input_schema(), tool.output_schema()
    yield from _table("input", taken, with_default=True)
    yield from _table("output", given, with_default=False)


def _table(name: str, schema: dict[str, Any], *, with_default: bool) -> Iterator[str]:
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        yield from (f"No {name}.", "")
        return
    heads = [name, "type", *(["default"] if with_default else []), "description"]
    yield f"| {' | '.join(heads)} |"
    yield "|" + " --- |" * len(heads)
    for field, facts in properties.items():
        required = field in schema.get("required", [])
        default = "required" if required else f"`{json.dumps(facts.get('default'))}`"
        cells = [f"`{field}`", type_text(facts), *([default] if with_default else [])]
        yield f"| {' | '.join([*cells, facts.get('description', '')]).rstrip()} |"
    yield ""


def type_text(schema: dict[str, Any]) -> str:
    """Describe the type of a JSON Schema: `list of string`, `integer or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_text(option) for option in schema["anyOf"])
    kind = str(schema.get("type", "any"))
    if kind != "array":
        return kind
    items = schema.get("items", {})
    return f"list of {type_text(items)}" if items else "list"
