"""A tool of a user whose inputs have every form: objects, lists of objects, choices, numbers."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, tool


class Address(BaseModel):
    """Where the order goes."""

    street: str = Field(min_length=3, description="Street and number.")
    town: str = "Bonn"


class Item(BaseModel):
    """One line of the order."""

    name: str = Field(description="What is ordered.")
    count: int = Field(1, ge=1, le=20, description="How many.")


class Order(BaseModel):
    """The order as it was understood."""

    text: str = Field(description="The order in one line.")


@tool("shop.order", effect="pure")
async def order(
    ctx: Context,
    items: Annotated[list[Item], Field(description="The lines of the order.", min_length=1)],
    speed: Annotated[Literal["slow", "fast"], Field(description="How it is sent.")] = "slow",
    address: Annotated[Address | None, Field(description="Another address.")] = None,
    notes: Annotated[list[str], Field(description="Remarks.")] = [],  # noqa: B006
    wrapped: Annotated[bool, Field(description="As a present.")] = False,  # noqa: FBT002
) -> Order:
    """Write an order in one line."""
    goods = ", ".join(f"{item.count} {item.name}" for item in items)
    place = f" to {address.street}, {address.town}" if address else ""
    told = f" ({'; '.join(notes)})" if notes else ""
    return Order(text=f"{goods} {speed}{place}{told}{', wrapped' * wrapped}")
