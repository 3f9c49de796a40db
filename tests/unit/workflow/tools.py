"""Small real tools for the tests of the engine."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipecatapp.workflow import Context, ModelFacts, Question, Tool, ToolFailed, tool


class Text(BaseModel):
    text: str


class Number(BaseModel):
    value: int


class CalledTool(BaseModel):
    id: str
    name: str
    arguments: dict[str, Any] | str


class Said(BaseModel):
    text: str
    tool_calls: list[CalledTool]
    finish_reason: str
    model: str


class Gates:
    """Lets a test hold a tool where it is: `gate.pass` ends when its gate is opened."""

    def __init__(self) -> None:
        self.reached: dict[str, asyncio.Event] = {}
        self.opened: dict[str, asyncio.Event] = {}
        self.inside = 0
        self.most_inside = 0

    def at(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        return (
            self.reached.setdefault(name, asyncio.Event()),
            self.opened.setdefault(name, asyncio.Event()),
        )


Calls = list[tuple[str, Any]]
Reply = str | Calls | tuple[str, Calls]


class Script:
    """What the tool `llm` answers, call by call, and what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, Any]] = []


class TakesTools(ModelFacts):
    def takes_tools(self, model: str) -> bool:
        return model != "plain"


class Tally:
    """Counts how often each tool was really called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.on_call: Callable[[str], None] = lambda _name: None


@tool("text.upper", effect="pure")
async def upper(ctx: Context, text: str) -> Text:
    """Write a text in capitals."""
    await ctx.say(text)
    return Text(text=text.upper())


@tool("text.fail", effect="pure")
async def fail(ctx: Context, text: str) -> Text:
    """Fail with a message."""
    raise ToolFailed(text)


class Stubborn:
    """Fails the first calls of `text.stubborn`."""

    def __init__(self, fails: int = 0) -> None:
        self.fails, self.calls = fails, 0


@tool("text.stubborn", effect="read")
async def stubborn(ctx: Context) -> Text:
    """Fail as often as its service says."""
    service = ctx.service(Stubborn)
    service.calls += 1
    if service.calls <= service.fails:
        raise ToolFailed("not now")
    return Text(text="at last")


@tool("text.break", effect="pure")
async def broken(ctx: Context) -> Text:
    """Break like a tool with a bug."""
    answers: dict[str, str] = {}
    return Text(text=answers["no such key"])


@tool("text.lie", effect="pure")
async def lie(ctx: Context) -> Text:
    """Give what its schema does not allow."""
    return Text.model_construct(text=3)


@tool("number.double", effect="pure")
async def double(ctx: Context, value: int) -> Number:
    """Double a number."""
    return Number(value=value * 2)


@tool("gate.pass", effect="read")
async def gate(ctx: Context, name: str) -> Text:
    """Wait until the gate of that name is opened."""
    gates = ctx.service(Gates)
    reached, opened = gates.at(name)
    gates.inside += 1
    gates.most_inside = max(gates.most_inside, gates.inside)
    reached.set()
    try:
        await opened.wait()
    finally:
        gates.inside -= 1
    return Text(text=name)


@tool("gate.send", effect="external")
async def send(ctx: Context, name: str) -> Text:
    """Send something; it is on its way until the gate of that name is opened."""
    reached, opened = ctx.service(Gates).at(name)
    reached.set()
    await opened.wait()
    return Text(text=name)


@tool("log.append", effect="external", approve="never")
async def append(ctx: Context, line: str) -> Text:
    """Append a line to the log file, which nobody can take back."""
    with ctx.service(Path).open("a") as log:
        log.write(f"{line}\n")
    return Text(text=line)


@tool("mail.send", effect="external")
async def mail(ctx: Context, line: str) -> Text:
    """Send a message, which is a line in the log file."""
    with ctx.service(Path).open("a") as log:
        log.write(f"mail {line}\n")
    return Text(text="sent")


@tool("lock.open", effect="external", approve="always")
async def unlock(ctx: Context, line: str) -> Text:
    """Open a lock, which is a line in the log file."""
    with ctx.service(Path).open("a") as log:
        log.write(f"open {line}\n")
    return Text(text="open")


@tool("log.flaky", effect="read")
async def flaky(ctx: Context) -> Text:
    """Fail as long as its file is not there, and make it."""
    file = ctx.service(Path).with_name("flaky")
    if not file.exists():
        file.touch()
        raise ToolFailed("it is not there yet")
    return Text(text="there")


class Told(BaseModel):
    answer: Any
    by: str


@tool("person.ask", effect="human")
async def ask(
    ctx: Context,
    text: str,
    choices: list[str] = [],  # noqa: B006
    returns: Any = None,
    after: float | None = None,
    otherwise: str | None = None,
) -> Told:
    """Ask a person."""
    given = {"after": after, "otherwise": otherwise}
    told = {name: value for name, value in given.items() if value is not None}
    asked = {"text": text, "choices": choices, "returns": returns}
    reply = await ctx.ask(Question.model_validate(asked | told))
    return Told(answer=reply.value, by=reply.by)


@tool("llm", effect="llm")
async def llm(
    ctx: Context,
    messages: list[dict[str, Any]],
    model: str = "auto",
    tools: list[dict[str, Any]] = [],  # noqa: B006
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Said:
    """Answer as the script says, word by word."""
    script = ctx.service(Script)
    script.asked.append({"messages": messages, "model": model, "tools": tools})
    reply = script.replies.pop(0)
    text, calls = (
        (reply, [])
        if isinstance(reply, str)
        else reply
        if isinstance(reply, tuple)
        else ("", reply)
    )
    for word in text.split(" ") if text else []:
        await ctx.say(word if word == text.split(" ")[0] else f" {word}")
    ctx.record(model=model, prompt=messages, prompt_tokens=10, completion_tokens=5)
    return Said(
        text=text,
        tool_calls=[
            CalledTool(id=f"c{i}", name=name, arguments=arguments)
            for i, (name, arguments) in enumerate(calls)
        ],
        finish_reason="tool_calls" if calls else "stop",
        model=model,
    )


TOOLS: tuple[Tool, ...] = (
    upper,
    fail,
    stubborn,
    broken,
    lie,
    double,
    gate,
    send,
    append,
    mail,
    unlock,
    flaky,
    ask,
    llm,
)
