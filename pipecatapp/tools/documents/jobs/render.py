"""Render pages of a PDF as PNG files."""

from typing import Any, Final

from pipecatapp.tools.documents.jobs.failed import JobFailed
from pipecatapp.tools.documents.jobs.pdf import open_pdf

MOST_PIXELS: Final = 25_000_000
"""Of one picture: A4 has 8.7 million at 300 dpi."""


def run(file: str, first: int, last: int | None, most: int, dpi: int) -> dict[str, Any]:
    """Write `1.png` and so on for the pages `first` to `last` (null: the last), at most `most`.

    A page that would have too many pixels gets a lower resolution. Returns number, width and
    height of each picture, and the number of pages of the PDF.
    """
    pictures: list[dict[str, int]] = []
    with open_pdf(file) as document:
        count = len(document)
        if first > count:
            raise JobFailed(f"it has {count} pages, so there is no page {first}")
        end = min(count, count if last is None else last, first + most - 1)
        for number in range(first, end + 1):
            page = document[number - 1]
            width, height = page.get_size()
            scale = min(dpi / 72, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
            picture = page.render(scale=scale).to_pil().convert("RGB")
            picture.save(f"{number}.png", optimize=False)
            pictures.append({"page": number, "width": picture.width, "height": picture.height})
            page.close()
    return {"pages": count, "pictures": pictures}
