"""The tool `home.act`: carry out an exact command to a device, without a model."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.home.home import Home
from pipecatapp.workflow import Context, Package, Question, ToolFailed, tool

CALL: Final = "call"
QUESTION: Final = "confirm"
"""Where the call and the question before it are in the step."""
YES, NO = "yes", "no"
LEFT: Final = "OK, nothing was changed."
SHOWN: Final = 20
"""Devices that an error names."""


class Acted(BaseModel):
    """The action, and the answer for the person."""

    text: str = Field(description="The answer in the language of the home.")
    tool: str = Field(
        description="The tool of Home Assistant that was called; empty if a person declined."
    )


class Confirmed(BaseModel):
    """A person's decision on a command."""

    confirmed: bool = Field(description="Whether the person has agreed.")


@tool("home.confirm", effect="human", version=1)
async def confirm(
    ctx: Context,
    text: Annotated[str, Field(description="The command in the person's own words.")],
    tool: Annotated[str, Field(description="The tool that carries it out.")],
    input: Annotated[dict[str, Any], Field(description="The input of the tool.")],
) -> Confirmed:
    """Ask a person whether a command to a lock, an alarm, a valve or a door is to be carried out.

    A spoken answer does not count: a microphone may have misheard both.
    """
    question = Question(
        text=f"{text!r}: may Home Assistant do this? It is asked each time, and not answered by"
        " voice alone.",
        choices=[YES, NO],
        show={"tool": tool, "input": input},
        by_voice=False,
    )
    return Confirmed(confirmed=(await ctx.ask(question)).value == YES)


@tool(
    "home.act",
    effect="external",
    version=1,
    needs=(Package("hassil", extra="home"), Package("home_assistant_intents", extra="home")),
)
async def act(
    ctx: Context,
    text: Annotated[
        str,
        Field(description="A command in a person's own words: `Turn on the lamp`.", min_length=1),
    ],
) -> Acted:
    """Carry out a person's command to a device of Home Assistant, if it is exact.

    It needs no approval, except for locks, alarms, valves and doors: then a person approves each.
    """
    home = ctx.service(Home)
    command = home.command(text)
    if command is None:
        known = ", ".join(one.names[0] for one in home.entities[:SHOWN]) or "none"
        raise ToolFailed(
            f"{text!r} is not an exact command to a device. Devices that Home Assistant shows: "
            f"{known}."
        )
    if ctx.tools[command.tool].approval(command.arguments) == "always":
        asked = {"text": text, "tool": command.tool, "input": dict(command.arguments)}
        if not (await ctx.call(confirm.name, asked, at=QUESTION))["confirmed"]:
            return Acted(text=LEFT, tool="")
    await ctx.call(command.tool, command.arguments, at=CALL)
    return Acted(text=command.answer, tool=command.tool)
