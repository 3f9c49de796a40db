"""Write a Markdown text as PDF, docx, html, epub or odt."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import typst

from pipecatapp.tools.documents.jobs import markdown, pandoc
from pipecatapp.tools.documents.jobs.failed import JobFailed
from pipecatapp.tools.documents.jobs.pdf import open_pdf

SOURCE: Final = Path("/source")
"""The workspace."""
MOST_PICTURES: Final = 200
LARGEST_PICTURE: Final = 32 << 20
PICTURES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "png": (b"\x89PNG",), "jpg": (b"\xff\xd8\xff",), "gif": (b"GIF8",), "webp": (b"RIFF",),
    "svg": (b"<svg", b"<?xml", b"<!--", b"<!DOCTYPE svg"),
}  # fmt: skip
"""Formats of pictures, and how their files begin."""
WRITERS: Final = {"docx": "docx", "html": "html5", "epub": "epub3", "odt": "odt"}
STYLE: Final = """
#set table(stroke: 0.5pt + luma(170))
#show table.cell.where(y: 0): strong
#show table: set par(justify: false)
#let horizontalrule = line(length: 100%, stroke: 0.5pt + luma(170))
#show raw.where(block: true): it => block(
  fill: luma(245), inset: 8pt, radius: 3pt, width: 100%, text(size: 0.9em, it))
#show figure.where(kind: table): set block(breakable: true)
#show link: set text(fill: rgb("#1a4f8b"))
"""
"""Ruled tables, so that they are found again when the PDF is read; shaded code."""
PLACE: Final = re.compile(r"(\w+)\.typ:(\d+):\d+")
MARKDOWN: Final = "input.md"


def run(
    form: str, paper: str, title: str, language: str, folder: str, *, contents: bool
) -> dict[str, Any]:
    """Write `document.` with the ending `form`; returns the number of pages of a PDF, and notes.

    `folder` is the folder of the workspace to which the paths of pictures are relative.
    """
    text = Path(MARKDOWN).read_text(encoding="utf-8")
    cleaned = markdown.parse(MARKDOWN)
    places = _pictures(cleaned.pictures, folder, text)
    tree = markdown.retarget(cleaned, places)
    _head(tree["meta"], title, language)
    arguments = ["-f", "json", "-s", *(["--toc"] if contents else [])]
    if form == "pdf":
        warnings = _pdf(tree, arguments, paper, text, places)
        with open_pdf("document.pdf") as document:
            pages = len(document)
    else:
        warnings, pages = _other(tree, arguments, form), None
    return {"pages": pages, "notes": [*cleaned.notes, *map(_sentence, warnings)][:20]}


def _head(meta: dict[str, Any], title: str, language: str) -> None:
    """Set title and language; those of the text are used where none are given."""
    if title:
        meta["title"] = markdown.inlines(title)
    if language or "lang" not in meta:
        meta["lang"] = markdown.inlines(language or "en")
    tag = markdown.plain(meta["lang"])
    if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}", tag):
        raise JobFailed(f"{tag[:40]!r} is not a language: use a code such as en, de or pt-BR")


def _sentence(warning: str) -> str:
    return " ".join(warning.split())[:300]


def _pictures(targets: list[str], folder: str, text: str) -> dict[str, str]:
    """Copy the pictures of the workspace; returns where each is."""
    if len(targets) > MOST_PICTURES:
        raise JobFailed(f"it has {len(targets)} pictures; at most {MOST_PICTURES} are written")
    Path("media").mkdir()
    places = {}
    for number, target in enumerate(targets, 1):
        line = markdown.line_of(text, target)
        where = f" (line {line})" if line else ""
        source = _picture(target, folder, where)
        places[target] = f"media/{number}.{_format(source, target, where)}"
        shutil.copyfile(source, places[target])
    return places


def _picture(target: str, folder: str, where: str) -> Path:
    """Return the file of a picture, if it is in the workspace."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target) or target.startswith("//"):
        raise JobFailed(
            f"the picture {target[:100]!r}{where} is not a file of the workspace: pictures of the"
            " network are not loaded, so save it in the workspace first"
        )
    path = (SOURCE / folder / unquote(target)).resolve()
    if not path.is_relative_to(SOURCE):
        raise JobFailed(f"the picture {target[:100]!r}{where} is outside of the workspace")
    if not path.is_file():
        raise JobFailed(f"the picture {target[:100]!r}{where} is not in the workspace")
    if path.stat().st_size > LARGEST_PICTURE:
        raise JobFailed(
            f"the picture {target[:100]!r}{where} has more than {LARGEST_PICTURE >> 20} MiB"
        )
    return path


def _format(source: Path, target: str, where: str) -> str:
    with source.open("rb") as stream:
        head = stream.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")
    for name, starts in PICTURES.items():
        if head.startswith(starts):
            return name
    raise JobFailed(
        f"the picture {target[:100]!r}{where} has none of the formats {', '.join(PICTURES)}"
    )


def _pdf(
    tree: dict[str, Any], arguments: list[str], paper: str, text: str, places: dict[str, str]
) -> list[str]:
    """Typeset the PDF with typst; returns warnings."""
    meta = tree["meta"]
    meta["header-includes"] = {"t": "MetaBlocks", "c": [{"t": "RawBlock", "c": ["typst", STYLE]}]}
    meta["papersize"] = markdown.inlines(paper)
    sides = {side: markdown.inlines("2.2cm") for side in ("x", "y")}
    meta["margin"] = {"t": "MetaMap", "c": sides}
    code, warnings = pandoc.run([*arguments, "-t", "typst"], json.dumps(tree).encode())
    Path("document.typ").write_bytes(code)
    try:
        typst.compile("document.typ", output="document.pdf", root=".")
    except typst.TypstError as error:
        raise JobFailed(_explained(error, code.decode(), text, places)) from error
    return warnings


def _explained(error: typst.TypstError, code: str, text: str, places: dict[str, str]) -> str:
    """Return the message of typst with the line of the Markdown that caused it."""
    place = PLACE.search(str(error.diagnostic))
    lines = code.splitlines()
    if place is None or not 0 < int(place[2]) <= len(lines):
        return str(error.message)
    culprit = lines[int(place[2]) - 1]
    named = next((target for target, file in places.items() if f'"{file}"' in culprit), "")
    line = markdown.line_of(text, named) if named else markdown.likely_line(text, culprit)
    shown = f"the picture {named!r}" if named else f"`{culprit.strip()[:120]}`"
    where = f"line {line} of the text, " if line else ""
    return f"{error.message} ({where}{shown})"


def _other(tree: dict[str, Any], arguments: list[str], form: str) -> list[str]:
    """Write another format with pandoc; returns warnings."""
    more = ["--embed-resources", "--mathml"] if form == "html" else ["--mathml"]
    data = json.dumps(tree).encode()
    output = ["-t", WRITERS[form], "-o", f"document.{form}"]
    _nothing, warnings = pandoc.run([*arguments, *more, *output], data)
    return warnings
