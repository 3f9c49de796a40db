"""Conversion of a request to `/v1/messages` to the equivalent chat request."""

from dataclasses import dataclass
from typing import Any, Final

from moe_gateway.api.anthropic.blocks import messages_of, system_of
from moe_gateway.errors import invalid_field, unsupported_field
from moe_gateway.responses.tools import NOT_IN_A_HEADER
from moe_gateway.routing.turns import strict

Json = dict[str, Any]

UNSUPPORTED: Final = {
    "mcp_servers": "no server is called from here; let your program call it",
    "container": "no program runs here",
}
"""Fields that Anthropic defines, and what to do without them."""

READ: Final = ("system", "messages", "tools", "tool_choice", "thinking", "output_config")
RENAMED: Final = {"stop_sequences": "stop"}
NO_EFFECT: Final = (
    *("cache_control", "context_management", "inference_geo", "metadata", "output_format"),
    *("service_tier", "speed", "betas", "diagnostics", "user_profile_id", "workspace_id"),
)
"""Options of Anthropic's own service that some clients always send, and fields read elsewhere."""
OURS: Final = frozenset((*UNSUPPORTED, *READ, *RENAMED, *NO_EFFECT))
"""Fields that are mapped or handled here; every other field is passed on."""

CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


@dataclass(frozen=True)
class Request:
    """A request that was read; `chat` is the body for `/v1/chat/completions`."""

    model: str
    stream: bool
    chat: Json
    notice: str
    """Ignored parts of the request, for the route reason."""


def read_request(fields: Json) -> Request:
    """Read a request. Raises `Refused` (400) for what chat cannot do."""
    for name, reason in UNSUPPORTED.items():
        if fields.get(name):
            raise unsupported_field(name, reason)
    system, cleaned = system_of(fields.get("system"))
    tools, dropped = _tools(fields.get("tools"))
    body = {name: value for name, value in fields.items() if name not in OURS}
    for ours, theirs in RENAMED.items():
        if fields.get(ours):
            body[theirs] = fields[ours]
    body["messages"] = strict(system + messages_of(fields.get("messages")))
    body |= ({"tools": tools} if tools else {}) | _choice(fields.get("tool_choice"), tools)
    body |= _thinking(fields.get("thinking")) | _output(fields) | _user(fields.get("metadata"))
    if fields.get("stream"):
        body["stream_options"] = {"include_usage": True}
    notice = "; left out a volatile system line" if cleaned else ""
    if dropped:
        notice += f"; left out tools of the kind {', '.join(dict.fromkeys(dropped))}"
    return Request(str(fields.get("model")), fields.get("stream") is True, body, notice)


def _tools(given: Any) -> tuple[list[Json], list[str]]:
    """The tools that a program runs itself, and the kinds of those that Anthropic would run."""
    if given is None:
        return [], []
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise invalid_field("tools", "a list of tools")
    tools, dropped = [], []
    for tool in given:
        if "input_schema" in tool:
            tools.append(_tool(tool))
        else:
            dropped.append(NOT_IN_A_HEADER.sub("?", str(tool.get("type"))[:50]))
    return tools, dropped


def _tool(tool: Json) -> Json:
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    function |= {name: tool[name] for name in ("description", "strict") if tool.get(name)}
    return {"type": "function", "function": function}


def _choice(choice: Any, tools: list[Json]) -> Json:
    """Raises `Refused` (400) for a tool that is not there: it cannot be forced."""
    if choice is None:
        return {}
    kind = choice.get("type") if isinstance(choice, dict) else None
    single = (
        {"parallel_tool_calls": False} if kind and choice.get("disable_parallel_tool_use") else {}
    )
    if kind in CHOICES:
        if kind == "any" and not tools:
            raise unsupported_field("tool_choice", "none of these tools can be called from here")
        return single | ({"tool_choice": CHOICES[kind]} if tools else {})
    if kind != "tool" or not any(tool["function"]["name"] == choice.get("name") for tool in tools):
        raise invalid_field("tool_choice", "one of `tools`")
    return single | {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}


def _thinking(given: Any) -> Json:
    """Whether and how long a model may think, in llama-server's fields."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise invalid_field("thinking", "an object")
    if given.get("type") == "disabled":
        return {"chat_template_kwargs": {"enable_thinking": False}}
    budget = given.get("budget_tokens")
    return {"thinking_budget_tokens": budget} if isinstance(budget, int) else {}


def _output(fields: Json) -> Json:
    """The form of the answer, and the effort; `output_format` is the older name of the form."""
    config = fields.get("output_config") or {}
    if not isinstance(config, dict):
        raise invalid_field("output_config", "an object")
    found: Json = {"reasoning_effort": config["effort"]} if config.get("effort") else {}
    form = config.get("format") or fields.get("output_format")
    if form is None:
        return found
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        raise invalid_field("output_config.format", "a JSON schema")
    schema = {"name": "answer", "schema": form.get("schema"), "strict": True}
    return found | {"response_format": {"type": "json_schema", "json_schema": schema}}


def _user(metadata: Any) -> Json:
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return {"user": user} if user else {}
