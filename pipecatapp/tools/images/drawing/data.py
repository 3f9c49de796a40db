"""The data of a chart."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.tools.images.drawing.theme import ThemeName
from pipecatapp.workflow import ToolInputs

ChartKind = Literal["bar", "line", "area", "scatter", "pie", "histogram"]
Text = Annotated[str, Field(max_length=200)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
MOST_VALUES = 20_000


class Series(BaseModel):
    """One row of values."""

    model_config = ConfigDict(extra="forbid")

    name: Text = Field(default="", description="Its name in the legend.")
    values: list[Number | None] = Field(
        description="Its values; null is a gap.", max_length=MOST_VALUES
    )
    x: list[Number | str] | None = Field(
        default=None,
        description="Where the values are, if not at the labels: numbers or dates.",
        max_length=MOST_VALUES,
    )


class ChartData(ToolInputs):
    """A chart: what it shows, and its texts."""

    kind: ChartKind = Field(description="bar, line, area, scatter, pie or histogram.")
    series: list[Series] = Field(
        default=[], description="The values; a pie and a histogram have one series.", max_length=20
    )
    labels: list[Number | Text] = Field(
        default=[],
        description="Of the values: names, numbers, or dates such as 2026-03-29.",
        max_length=MOST_VALUES,
    )
    title: Text = Field(default="", description="The heading.")
    subtitle: Text = Field(default="", description="A line below it.")
    x_title: Text = Field(default="", description="Name of the horizontal axis.")
    y_title: Text = Field(default="", description="Name or unit of the vertical axis.")
    stacked: bool = Field(default=False, description="Bars and areas on top of each other.")
    horizontal: bool = Field(default=False, description="Bars from left to right, for long labels.")
    bins: int | None = Field(default=None, description="Bins of a histogram.", ge=1, le=200)
    theme: ThemeName = Field(default="light", description="light or dark.")
    width: int = Field(default=960, description="Pixels, before `scale`.", ge=240, le=4000)
    height: int = Field(default=540, description="Pixels, before `scale`.", ge=180, le=4000)
    scale: float = Field(
        default=2, description="Pixels of the picture for each of these.", ge=0.5, le=4
    )


class WrongData(ValueError):
    """Data that cannot be drawn, and what to change."""
