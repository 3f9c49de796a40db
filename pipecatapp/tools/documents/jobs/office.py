"""Documents that pandoc reads, as Markdown."""

import zipfile
from typing import Any, Final
from xml.etree import ElementTree

from pipecatapp.tools.documents.jobs import pandoc, tables
from pipecatapp.tools.documents.jobs.failed import JobFailed
from pipecatapp.tools.documents.jobs.syntax_tree import PLAIN, Node, rewrite, rows_of, text_of

UNPACKED: Final = 256 << 20
"""Bytes that the files of an archive may have together."""
MOST_FILES: Final = 20_000
LONGEST_FACT: Final = 500
PROPERTIES: Final = ("docProps/core.xml", "meta.xml")
"""The files with the metadata: of Microsoft's formats, and of OpenDocument."""
_FACTS: Final = {
    "title": "title", "creator": "author", "initial-creator": "author", "subject": "subject",
    "description": "description", "keywords": "keywords", "language": "language",
    "created": "created", "creation-date": "created", "modified": "modified",
}  # fmt: skip
"""Names of elements → names of facts."""
_LINKS: Final = ("http://", "https://", "mailto:")


def check_archive(path: str) -> None:
    """Raise `JobFailed` for an archive that is damaged, encrypted or too large when unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise JobFailed(f"the file is damaged ({error})") from error
    size = sum(file.file_size for file in files)
    if size > UNPACKED or len(files) > MOST_FILES:
        raise JobFailed(
            f"its {len(files)} files have {size >> 20} MiB when unpacked; at most"
            f" {UNPACKED >> 20} MiB in {MOST_FILES} files are read"
        )
    if any(file.flag_bits & 1 for file in files):
        raise JobFailed("it is encrypted: save it without a password")


def facts(path: str) -> dict[str, str]:
    """Return title, author and dates of an archive's metadata."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for name in {*archive.namelist()}.intersection(PROPERTIES):
            try:
                root = ElementTree.fromstring(archive.read(name))
            except ElementTree.ParseError as error:
                raise JobFailed(f"its file {name} is damaged ({error})") from error
            for element in root.iter():
                fact = _FACTS.get(element.tag.rpartition("}")[2])
                if fact and element.text and element.text.strip():
                    found.setdefault(fact, element.text.strip()[:LONGEST_FACT])
    return found


def read(path: str, form: str) -> tuple[str, dict[str, str]]:
    """Return the Markdown of a document in a format of pandoc, and the metadata in its text."""
    tree = pandoc.parse(path, form)
    meta = {
        name: text_of(tree["meta"][name]).strip()[:LONGEST_FACT]
        for name in ("title", "author", "date", "lang")
        if name in tree["meta"]
    }
    tree["meta"] = {}
    tree["blocks"] = rewrite(tree["blocks"], _readable)
    text = pandoc.dump(tree, ["-t", "gfm-raw_html+raw_attribute", "--wrap=none"])
    return text.strip(), {name: value for name, value in meta.items() if value}


def _readable(node: Node) -> list[Node]:
    """Replace what has no meaning in plain Markdown: raw code, wrappers, pictures."""
    kind: str = node["t"]
    content: Any = node.get("c")
    if kind in ("RawBlock", "RawInline"):
        return [] if content[0] != "gfm" else [node]
    if kind in ("Div", "Span"):
        inner: list[Node] = content[1]
        return inner
    if kind == "Figure":
        figure: list[Node] = content[2]
        return figure
    if kind == "Image":
        told = text_of(content[1]).strip()
        return [{"t": "Str", "c": f"(picture: {told})" if told else "(picture)"}]
    if kind == "Link" and not content[2][0].lower().startswith(_LINKS):
        words: list[Node] = content[1]
        return words
    if kind == "Table":
        return [{"t": "RawBlock", "c": ["gfm", "\n".join(tables.markdown(rows_of(node)))]}]
    if kind in ("Header", "CodeBlock", "Code"):
        place = 1 if kind == "Header" else 0
        content[place] = PLAIN
    return [node]
