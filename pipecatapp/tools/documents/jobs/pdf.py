"""Open a PDF, and the facts that it has about itself."""

from typing import Final

import pypdfium2
from pypdfium2 import PdfDocument, PdfiumError

from pipecatapp.tools.documents.jobs.failed import JobFailed

PASSWORD: Final = 4
"""PDFium's code for a document that needs a password."""
LONGEST_FACT: Final = 500
_FACTS: Final = {
    "Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords",
    "CreationDate": "created", "ModDate": "modified", "Producer": "producer",
}  # fmt: skip


def open_pdf(path: str) -> PdfDocument:
    """Open a PDF. Raises `JobFailed` if it is damaged or encrypted, or has no pages."""
    try:
        document = pypdfium2.PdfDocument(path)
    except PdfiumError as error:
        if error.err_code == PASSWORD:
            raise JobFailed(
                "it is encrypted with a password: save a copy without a password"
            ) from error
        raise JobFailed("it is not a valid PDF, or it is damaged") from error
    if len(document) == 0:
        raise JobFailed("it has no pages, or it is damaged")
    return document


def facts(document: PdfDocument) -> dict[str, str]:
    """Return title, author and dates (as `2026-11-29 10:00:00`)."""
    found = {fact: _clean(str(document.get_metadata_value(name))) for name, fact in _FACTS.items()}
    for fact in ("created", "modified"):
        found[fact] = _date(found[fact])
    return {name: value for name, value in found.items() if value}


def _clean(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable()).strip()[:LONGEST_FACT]


def _date(text: str) -> str:
    """Return a date of PDF, such as `D:20261129100000Z`, in a readable form."""
    digits = text.removeprefix("D:")[:14]
    if len(digits) < 8 or not digits.isdigit():
        return text
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
    return day if len(digits) < 14 else f"{day} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}"
