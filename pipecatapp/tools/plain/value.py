"""A value with a name."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, tool


class Value(BaseModel):
    """The given value."""

    value: Any = Field(description="The value, unchanged.")


@tool("value", effect="pure", version=1)
async def value(
    ctx: Context,
    value: Annotated[Any, Field(description="Anything; an expression keeps the type it has.")],
) -> Value:
    """Give a value a name, so that other nodes can read it as this node's output."""
    return Value(value=value)
