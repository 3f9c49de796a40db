"""Conversion of `tool_choice` with names for llama-server.

llama-server expects a text in `tool_choice` and treats an object as `auto` (`json_value` with a
default in `oaicompat_chat_params_parse` of its server), so a named function would not be forced.
Offering only the named functions, with `required` or `auto`, has the same effect.
"""

from typing import Any, Final

import msgspec

from hearth.service.http_errors import Refused

Json = dict[str, Any]

MODES: Final = ("auto", "required")


class _Tools(msgspec.Struct):
    tools: list[Json] = []
    tool_choice: Json = {}


_TOOLS = msgspec.json.Decoder(_Tools)


def named_tools(body: bytes) -> Json:
    """Return `tools` and `tool_choice` for a request whose choice is an object.

    Raises `Refused` (400) when it is of another kind, or names a function that is not there.
    """
    try:
        asked = _TOOLS.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong("`tools` has to be a list of functions") from error
    choice, mode = asked.tool_choice, "required"
    if choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools")
        allowed = allowed if isinstance(allowed, dict) else {}
        given, mode = allowed.get("tools"), allowed.get("mode", "auto")
        names = [_name(one) for one in given] if isinstance(given, list) else []
    else:
        names = [_name(choice)]
    if mode not in MODES or not names or None in names:
        raise _wrong("choose `auto`, `none`, `required`, a function, or allowed functions")
    known = {_name(tool) for tool in asked.tools}
    if missing := [name for name in names if name not in known]:
        raise _wrong(f"{str(missing[0])[:100]!r} is not among `tools`")
    return {"tools": [tool for tool in asked.tools if _name(tool) in names], "tool_choice": mode}


def _name(tool: Any) -> str | None:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _wrong(reason: str) -> Refused:
    return Refused(400, "invalid_value", f"Invalid tool_choice: {reason}.", param="tool_choice")
