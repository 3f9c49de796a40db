"""Write SVG, and render it to PNG."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from pipecatapp.tools.images.drawing.fonts import FAMILY, MISSING, fonts_for
from pipecatapp.tools.images.drawing.theme import LABEL, Theme

NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not permit. Source: XML 1.0, section 2.2."""
MAX_PIXELS: Final = 40_000_000


class TooLarge(ValueError):
    """A drawing with more pixels than a picture may have."""


def number(value: float) -> str:
    """Write a coordinate: at most two decimals, so that the same drawing has the same text."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def clean(text: str) -> str:
    """Return a text in one line, without characters that a picture cannot show."""
    return NOT_XML.sub("", text).replace("\n", " ").replace("\t", " ").strip()


class Svg:
    """A drawing of a size in pixels; elements are drawn in the order in which they are added."""

    def __init__(self, width: float, height: float, theme: Theme) -> None:
        self.width, self.height, self.theme = width, height, theme
        self.texts: list[str] = []
        self._parts: list[str] = []

    def add(self, name: str, content: str = "", /, **attributes: str | float | None) -> None:
        """Add an element; `_` in names of attributes means `-`. None leaves an attribute out."""
        written = "".join(
            f" {key.replace('_', '-')}={quoteattr(_value(value))}"
            for key, value in attributes.items()
            if value is not None
        )
        self._parts.append(
            f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = LABEL,
        colour: str = "",
        anchor: str = "start",
        bold: bool = False,
        turn: float = 0,
    ) -> None:
        """Write a line of text; `y` is its base line, `turn` degrees around its place."""
        text = clean(text)
        if not text:
            return
        self.texts.append(text)
        self.add(
            "text",
            escape(text),
            x=x,
            y=y,
            font_size=size,
            fill=colour or self.theme.text,
            text_anchor=None if anchor == "start" else anchor,
            font_weight="bold" if bold else None,
            transform=f"rotate({number(turn)} {number(x)} {number(y)})" if turn else None,
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, **more: str | float
    ) -> None:
        """Draw a straight line."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, **more)

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, **more: str | float
    ) -> None:
        """Draw a rectangle."""
        self.add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def path(self, points: Sequence[tuple[float, float]], colour: str, **more: str | float) -> None:
        """Draw a line through points."""
        self.add("path", d=path_of(points), fill="none", stroke=colour, **more)

    def source(self) -> str:
        """Return the whole document."""
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FAMILY}">'
        return "\n".join([head, *self._parts, "</svg>"])


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """Return the path data of straight lines through points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else number(value)


def rendered(drawing: Svg, scale: float) -> tuple[bytes, str]:
    """Return a drawing as PNG, and the characters that no font of this machine has.

    Such characters are shown as a replacement sign. Raises `TooLarge`.
    """
    from resvg_py import svg_to_bytes  # noqa: PLC0415

    pixels = drawing.width * drawing.height * scale * scale
    if pixels > MAX_PIXELS:
        raise TooLarge(
            f"The picture would have {drawing.width * scale:.0f} x {drawing.height * scale:.0f}"
            f" pixels, more than {MAX_PIXELS:,}: use a smaller `scale`, or less data."
        )
    fonts, source = fonts_for("".join(drawing.texts)), drawing.source()
    for letter in fonts.missing:
        source = source.replace(letter, MISSING)
    files: list[str] = [str(file) for file in fonts.files]
    png = svg_to_bytes(
        svg_string=source,
        background=drawing.theme.paper,
        skip_system_fonts=True,
        font_files=files,
        font_family=FAMILY,
        sans_serif_family=FAMILY,
        resources_dir=str(Path(fonts.files[0]).parent),
        zoom=scale,
    )
    return png, fonts.missing
