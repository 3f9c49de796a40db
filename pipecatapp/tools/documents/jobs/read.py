"""Read a document: find out what it is by its content, and convert it to Markdown."""

import zipfile
from pathlib import Path
from typing import Any, Final

from pipecatapp.tools.documents.jobs.failed import JobFailed

HEAD: Final = 1024
"""Bytes at the beginning in which a PDF has its header."""
PANDOC: Final = {
    "docx": "docx", "pptx": "pptx", "odt": "odt", "epub": "epub", "html": "html", "rtf": "rtf",
    "rst": "rst", "org": "org", "ipynb": "ipynb",
}  # fmt: skip
"""Kinds that pandoc reads → its name of the format."""
ENDINGS: Final = {"htm": "html", "xhtml": "html", "xlsm": "xlsx", "docm": "docx", "tsv": "csv"}
CONTAINERS: Final = ("pdf", "docx", "pptx", "odt", "epub", "xlsx")
PARTS: Final = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx",
                "xl/workbook.xml": "xlsx"}  # fmt: skip
OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
PICTURES: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
MIMETYPES: Final = {b"application/epub+zip": "epub",
                    b"application/vnd.oasis.opendocument.text": "odt"}  # fmt: skip


def run(file: str, name: str, page: int, characters: int) -> dict[str, Any]:
    """Return kind, facts, notes, the number of pages if there are pages, and segments of text.

    Pages are returned from `page` on, until they have so many characters together. Every other
    document is one segment with its whole text.
    """
    kind, notes = kind_of(file, name)
    if kind == "pdf":
        from pipecatapp.tools.documents.jobs import pdf_text  # noqa: PLC0415 (100 ms)

        found = pdf_text.read(file, page, characters)
    else:
        text, facts, more = _whole(file, kind)
        notes += more
        found = {"segments": [{"page": 1, "text": text}], "pages": None, "facts": facts,
                 "notes": []}  # fmt: skip
    return {**found, "kind": kind, "notes": [*notes, *found["notes"]]}


def kind_of(file: str, name: str) -> tuple[str, list[str]]:
    """Return what a document is by its content, and a note if its name says otherwise."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    named = ENDINGS.get(ending, ending)
    found = _container(file)
    if not found:
        if named in CONTAINERS:
            raise JobFailed(
                f"its name says {named}, and its content is not: rename it, or read it with"
                " file.read"
            )
        return named if named in (*PANDOC, "csv") else "text", []
    notes = [] if found == named else [f"The file is {found} by its content, whatever its name."]
    return found, notes


def _container(file: str) -> str:
    """Return the kind of a PDF or of an archive; empty for everything that is text."""
    with Path(file).open("rb") as stream:
        head = stream.read(HEAD)
    if b"%PDF-" in head:
        return "pdf"
    if head.startswith(OLE):
        raise JobFailed(
            "it is an Office document that is encrypted or older than 2007: save it as docx, pptx"
            " or xlsx without a password"
        )
    if head.startswith(PICTURES):
        raise JobFailed("it is a picture, not a document")
    return _archive(file) if zipfile.is_zipfile(file) else ""


def _archive(file: str) -> str:
    from pipecatapp.tools.documents.jobs.office import check_archive  # noqa: PLC0415

    check_archive(file)
    with zipfile.ZipFile(file) as archive:
        names = {*archive.namelist()}
        found = next((kind for part, kind in PARTS.items() if part in names), "")
        if not found and "mimetype" in names:
            found = MIMETYPES.get(archive.read("mimetype").strip(), "")
        manifest = "META-INF/manifest.xml"
        if found == "odt" and manifest in names and b"encryption-data" in archive.read(manifest):
            raise JobFailed("it is encrypted: save it without a password")
    if not found:
        raise JobFailed("it is an archive, not a document: docx, pptx, xlsx, odt or epub are read")
    return found


def _whole(file: str, kind: str) -> tuple[str, dict[str, str], list[str]]:
    """Return text, facts and notes of a document without pages."""
    if kind == "xlsx":
        from pipecatapp.tools.documents.jobs import office, sheets  # noqa: PLC0415

        text, notes = sheets.read_xlsx(file)
        return text, office.facts(file), notes
    if kind in PANDOC:
        from pipecatapp.tools.documents.jobs import office  # noqa: PLC0415

        text, meta = office.read(file, PANDOC[kind])
        return text, {**meta, **(office.facts(file) if kind in CONTAINERS else {})}, []
    text = decoded(Path(file).read_bytes())
    if kind == "csv":
        from pipecatapp.tools.documents.jobs import sheets  # noqa: PLC0415

        table, notes = sheets.read_csv(text)
        return table, {}, notes
    return text, {}, []


def decoded(data: bytes) -> str:
    """Return the text of a file. Raises `JobFailed` if it is not text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        raise JobFailed("it is neither text nor a document that is known")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
