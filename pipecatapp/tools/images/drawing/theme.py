"""Colours and sizes of drawings."""

from dataclasses import dataclass
from typing import Final, Literal

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True)
class Theme:
    """The colours of a drawing; `series` differ also for readers with colour blindness."""

    paper: str
    text: str
    soft: str
    """Of axis labels and notes."""
    line: str
    """Of grids and borders."""
    fill: str
    """Of boxes and every second row."""
    series: tuple[str, ...]

    def colour(self, index: int) -> str:
        """Return the colour of a series."""
        colour = self.series[index % len(self.series)]
        return colour if index < len(self.series) else _mixed(colour, self.paper)


def _mixed(colour: str, other: str) -> str:
    """Return the colour half way to another one: the second round through the colours."""
    pairs = [(int(colour[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{(one + two) // 2:02x}" for one, two in pairs)


LIGHT: Final = Theme(
    paper="#ffffff",
    text="#1c2430",
    soft="#5a6472",
    line="#d9dee5",
    fill="#f3f5f8",
    series=(
        *("#2f6fd0", "#e2762b", "#2e9e6b", "#b0429a", "#c99a12", "#3aa3c4"),
        *("#7a57c9", "#cf4a4a", "#6b7687", "#8a6a3f"),
    ),
)
DARK: Final = Theme(
    paper="#14181f",
    text="#e8ecf2",
    soft="#a3adbb",
    line="#333b47",
    fill="#1e242d",
    series=(
        *("#6ea8ff", "#ff9f5a", "#5fd3a0", "#e183cf", "#e8c252", "#6fd0ec"),
        *("#ac90f2", "#ff8585", "#a3adbb", "#c9a57a"),
    ),
)
THEMES: Final[dict[ThemeName, Theme]] = {"light": LIGHT, "dark": DARK}

TITLE, SUBTITLE, LABEL, SMALL = 20.0, 14.0, 13.0, 12.0
"""Sizes of texts in pixels."""
PADDING: Final = 24.0
