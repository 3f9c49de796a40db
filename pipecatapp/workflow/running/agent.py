"""The tool `agent`: a model and tools in turns, until the model answers.

Every model call and every tool call inside is a separate instance (`reply/turn[1]/llm`,
`reply/turn[1]/call[0]`), so a resumed agent does not repeat calls that have ended.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pipecatapp.workflow.declaring import tool
from pipecatapp.workflow.tool import Context, Json, Tool, ToolFailed
from pipecatapp.workflow.tool_names import current_name, is_pattern, matches


class Answer(BaseModel):
    """The output of an agent."""

    text: str
    """The whole text for the person, as it was streamed: the texts of all turns, separated by blank
    lines.
    """
    answer: str
    """The text of the last turn."""
    turns: int
    finish_reason: str
    model: str


@tool("agent", effect="llm", version=1)
async def agent(
    ctx: Context,
    model: Annotated[str, Field(description="Role or id of the model.")],
    messages: Annotated[list[Json], Field(description="The conversation so far, in OpenAI form.")],
    tools: Annotated[
        list[str],
        Field(description="Names of the tools it may call; `mcp/*` is all that begin with `mcp/`."),
    ] = [],  # noqa: B006 (pydantic copies defaults)
    max_turns: Annotated[int, Field(ge=1, le=100, description="Model calls it may make.")] = 8,
    temperature: float | None = None,
    max_tokens: int | None = None,
    fallback: Annotated[list[str], Field(description="Models to ask instead, in this order.")] = [],  # noqa: B006
    tool_inputs: Annotated[
        dict[str, Json],
        Field(description="Inputs that are set here and not by the model, by tool."),
    ] = {},  # noqa: B006
) -> Answer:
    """Let a model work with tools until it answers."""
    before = ctx.before("turn[1]/llm")
    offered = _offered(ctx, tools, lenient=before is not None)
    tool_inputs = {current_name(name): inputs for name, inputs in tool_inputs.items()}
    specs = before["tools"] if before else _specs(offered, tool_inputs)
    request: Json = {"model": model, "tools": specs}
    request |= {
        k: v for k, v in (("temperature", temperature), ("max_tokens", max_tokens)) if v is not None
    }
    request |= {"fallback": fallback} if fallback else {}
    talk, voice = list(messages), _Voice(ctx.speak)
    for turn in range(1, max_turns + 1):
        talk += [{"role": "user", "content": note} for note in ctx.notes(f"turn[{turn}]")]
        given = {**request, "messages": talk}
        said = await ctx.call("llm", given, at=f"turn[{turn}]/llm", say=voice.next_turn())
        voice.keep(said["text"])
        if not said["tool_calls"]:
            return Answer(
                text=voice.whole,
                answer=said["text"],
                turns=turn,
                finish_reason=str(said["finish_reason"] or "stop"),
                model=said["model"] or model,
            )
        known = {spec["function"]["name"]: offered.get(spec["function"]["name"]) for spec in specs}
        results = await _results(ctx, known, said["tool_calls"], tool_inputs, turn)
        talk += [_assistant(said), *results]
    raise ToolFailed(f"No answer after {max_turns} turns: the model still asks for tools.")


class _Voice:
    """Joins the texts of the turns to one, in the stream as in the output."""

    def __init__(self, speak: Callable[[str], None]) -> None:
        self._speak = speak
        self.whole = ""

    def next_turn(self) -> Callable[[str], None]:
        """How the next turn speaks: a blank line before its first word when others have spoken."""
        before = "\n\n" if self.whole else ""

        def say(text: str) -> None:
            nonlocal before
            if text:
                self._speak(before + text)
                before = ""

        return say

    def keep(self, text: str) -> None:
        self.whole = f"{self.whole}\n\n{text}" if self.whole and text else self.whole or text


def _offered(ctx: Context, tools: Sequence[str], *, lenient: bool) -> dict[str, Tool]:
    """Return the tools by their names for the model, without those that this machine cannot run.

    The engine empties `tools` if the model supports none, before the agent's input is stored. After
    a restart the model keeps the earlier tools; a call of a removed tool fails.
    """
    named = [one for name in tools for one in _meant(ctx, name)]
    unknown = [name for name in named if name not in ctx.tools or name == "agent"]
    if unknown and not lenient:
        raise ToolFailed(f"An agent cannot have {', '.join(unknown)}.")
    known = [name for name in named if name not in unknown]
    missing = {} if lenient else {name: ctx.tools[name].unavailable() for name in known}
    if missing := {name: reason for name, reason in missing.items() if reason}:
        ctx.record(unavailable=missing)
    return {_for_models(name): ctx.tools[name] for name in known if name not in missing}


def _for_models(name: str) -> str:
    """The name of a tool for a model: `time.now` is `time_now`, `mcp/oven/heat` `mcp_oven_heat`."""
    return name.replace(".", "_").replace("/", "_")


def _meant(ctx: Context, name: str) -> list[str]:
    """The tools of a name, or of a pattern: those that are there now, which may be none."""
    if not is_pattern(name):
        return [current_name(name)]
    return sorted(tool for tool in ctx.tools if matches(name, tool))


def _specs(offered: Mapping[str, Tool], tool_inputs: Mapping[str, Json]) -> list[Json]:
    """The tools as a model is offered them, without the inputs that it does not set."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.about,
                "parameters": tool.schema_for_models(tool_inputs.get(tool.name, ())),
            },
        }
        for name, tool in offered.items()
    ]


def _assistant(said: Json) -> Json:
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": _as_text(call["arguments"])},
        }
        for call in said["tool_calls"]
    ]
    return {"role": "assistant", "content": said["text"], "tool_calls": calls}


async def _results(
    ctx: Context,
    offered: Mapping[str, Tool | None],
    calls: Sequence[Json],
    tool_inputs: Mapping[str, Json],
    turn: int,
) -> list[Json]:
    """Return the results of the calls in order; calls run concurrently if none changes anything."""
    jobs = [
        _result(ctx, offered, call, tool_inputs, f"turn[{turn}]/call[{index}]")
        for index, call in enumerate(calls)
    ]
    known = [offered.get(call["name"]) for call in calls]
    if all(tool is None or tool.effect in ("pure", "read") for tool in known):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
        return [task.result() for task in tasks]
    return [await job for job in jobs]


async def _result(
    ctx: Context,
    offered: Mapping[str, Tool | None],
    call: Json,
    tool_inputs: Mapping[str, Json],
    at: str,
) -> Json:
    """One tool's answer, or what was wrong, as a message to the model."""
    tool, arguments = offered.get(call["name"]), call["arguments"]
    if call["name"] not in offered:
        content = (
            f"Error: there is no tool {call['name']!r}. There is: {', '.join(offered) or 'none'}."
        )
    elif not isinstance(arguments, dict):
        content = f"Error: the arguments are not a JSON object: {str(arguments)[:200]!r}"
    else:
        try:
            name = tool.name if tool else call["name"]
            given = ctx.before(at) or _merged(tool, arguments, tool_inputs.get(name, {}))
            await ctx.approved(name, given, at=at)
            content = _stable(await ctx.call(name, given, at=at, say=lambda _text: None))
        except ToolFailed as error:
            content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def _merged(tool: Tool | None, arguments: Json, authors: Json) -> Json:
    """The input of a call: what the model sets, and what the document sets.

    Raises `ToolFailed` where the model sets what is not its own to set.
    """
    barred = sorted(arguments.keys() & {*(tool.author_inputs if tool else ()), *authors})
    if barred:
        raise ToolFailed(f"{', '.join(barred)}: set by the document, not by you. Leave it out.")
    return {**arguments, **authors}


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else _stable(arguments)


def _stable(value: Any) -> str:
    """Return the same text before and after a restart: the ledger may change the order of keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
