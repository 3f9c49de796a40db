"""How `doc.read` finds out what a file is, without the sandbox around it."""

import zipfile
from pathlib import Path

import pytest

from pipecatapp.tools.documents.jobs.failed import JobFailed
from pipecatapp.tools.documents.jobs.read import run
from tests.support.pdfs import PLAIN, pdf

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


def archive(path: Path, *names: str, size: int = 1) -> None:
    """Write an archive whose files have so many bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, b"\0" * size)


@pytest.mark.parametrize(
    ("path", "page", "reason"),
    [
        ("damaged.pdf", 1, "not a valid PDF, or it is damaged"),
        ("text.pdf", 1, "its name says pdf, and its content is not: rename it"),
        ("two.pdf", 3, "it has 2 pages, so there is no page 3"),
        ("old.doc", 1, "encrypted or older than 2007"),
        ("bomb.docx", 1, "when unpacked; at most 256 MiB"),
        ("other.zip", 1, "it is an archive, not a document"),
        ("damaged.xlsx", 1, "the file is damaged"),
        ("picture.pdf", 1, "it is a picture, not a document"),
        ("binary.txt", 1, "neither text nor a document that is known"),
    ],
)
def test_file_that_is_no_document_is_explained(
    tmp_path: Path, path: str, page: int, reason: str
) -> None:
    """The sentence says what the file is instead, and what to do."""
    files = {
        "damaged.pdf": b"%PDF-1.7 no", "text.pdf": b"Dear Ada", "two.pdf": pdf([PLAIN] * 2),
        "old.doc": OLE, "picture.pdf": b"\x89PNG\r\n", "binary.txt": b"a\0b",
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    archive(tmp_path / "other.zip", "a.txt")
    archive(tmp_path / "damaged.xlsx", "xl/workbook.xml")
    if path == "bomb.docx":
        archive(tmp_path / path, "word/document.xml", size=300 << 20)

    with pytest.raises(JobFailed, match=reason):
        run(file=str(tmp_path / path), name=path, page=page, characters=100)
