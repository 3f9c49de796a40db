"""A finding of a rule."""

from dataclasses import dataclass
from typing import Any, Final

from pipecatapp.tools.documents.jobs.lines import Box

LONGEST: Final = 160
"""Characters of the quoted text."""


@dataclass(frozen=True)
class Finding:
    """A fault and its place."""

    rule: str
    page: int
    message: str
    text: str = ""
    box: Box | None = None

    def data(self, page_box: Box) -> dict[str, Any]:
        """Return it as JSON, with its position from the upper left corner of the page."""
        position = None
        if self.box is not None:
            left, bottom, right, top = self.box
            position = {
                "left": round(left - page_box[0], 1),
                "top": round(page_box[3] - top, 1),
                "width": round(right - left, 1),
                "height": round(top - bottom, 1),
            }
        text = " ".join(self.text.split())
        return {
            "rule": self.rule, "page": self.page, "message": self.message,
            "text": text[:LONGEST], "position": position,
        }  # fmt: skip
