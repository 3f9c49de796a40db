"""The tool that sends a message to people outside of Hearth."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.ports.opening import Ports
from pipecatapp.workflow import Context, tool


class Sent(BaseModel):
    """A message that was accepted."""

    text: str = Field(description="Its text.")


@tool("message.send", effect="external", version=1)
async def send(
    ctx: Context,
    text: Annotated[str, Field(description="The message.", min_length=1, max_length=4000)],
) -> Sent:
    """Send a message to the channel of a chat service, such as a report of a finished task."""
    await ctx.service(Ports).messages().send(text)
    return Sent(text=text)
