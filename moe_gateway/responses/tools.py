"""The tools of a request to `/v1/responses`, as a chat has them."""

import re
from typing import Any, Final

from moe_gateway.errors import invalid_field, unsupported_field
from moe_gateway.responses.items import text_of

Json = dict[str, Any]

NOT_IN_A_HEADER: Final = re.compile(r"[^A-Za-z0-9_.-]")


def functions_of(given: Any) -> tuple[list[Json], list[str]]:
    """Return the function tools, and the kinds of all others.

    Others run on OpenAI's own servers, or belong to one program. Clients such as Codex always offer
    some and work without them, so they are removed, and the answer lists them. Raises `Refused`.
    """
    if given is None:
        return [], []
    if not isinstance(given, list):
        raise invalid_field("tools", "a list")
    for place, tool in enumerate(given):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise invalid_field(f"tools[{place}]", "a tool with a type")
    functions = [tool for tool in given if tool["type"] == "function"]
    others = [tool["type"][:50] for tool in given if tool["type"] != "function"]
    return functions, [NOT_IN_A_HEADER.sub("?", kind) for kind in others]


def chat_tools(functions: list[Json], choice: Any, *, dropped: bool) -> Json:
    """Return `tools` and `tool_choice` of the chat.

    Raises `Refused` (400) for a choice that is not of a function which is there: a tool that is
    left out cannot be forced.
    """
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        functions, choice = _allowed(functions, choice)
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise unsupported_field("tool_choice", "only functions can be chosen")
        name = text_of(choice, "name", "tool_choice")
        _refuse_unknown(functions, [name])
        choice = {"type": "function", "function": {"name": name}}
    elif not isinstance(choice, str | None):
        raise invalid_field("tool_choice", "text or an object")
    if choice == "required" and dropped and not functions:
        raise unsupported_field("tool_choice", "none of these tools can be called from here")
    found: Json = {"tools": [_chat_tool(tool) for tool in functions]} if functions else {}
    if choice is None or (dropped and not functions):
        return found
    return found | {"tool_choice": choice}


def _allowed(functions: list[Json], choice: Json) -> tuple[list[Json], str]:
    """Keep only the tools that may be called now; `mode` states whether one must be called."""
    allowed, mode = choice.get("tools"), choice.get("mode", "auto")
    if not isinstance(allowed, list) or mode not in ("auto", "required"):
        raise invalid_field("tool_choice", "a list of allowed tools with a mode")
    names = [
        text_of(tool, "name", "tool_choice.tools")
        for tool in allowed
        if isinstance(tool, dict) and tool.get("type") == "function"
    ]
    _refuse_unknown(functions, names)
    return [tool for tool in functions if tool.get("name") in names], mode


def _refuse_unknown(functions: list[Json], names: list[str]) -> None:
    known = {tool.get("name") for tool in functions}
    if missing := [name for name in names if name not in known]:
        raise invalid_field("tool_choice", f"one of `tools`, not {missing[0][:100]!r}")


def _chat_tool(tool: Json) -> Json:
    function = {
        name: tool[name]
        for name in ("name", "description", "parameters", "strict")
        if tool.get(name) is not None
    }
    return {"type": "function", "function": function}
