"""The syntax tree of a Markdown text that is to be written, without what could do harm.

Raw HTML and raw code of a typesetter are left out, attributes are kept only where they are known,
and pictures are listed, so that they can be checked and copied.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from pipecatapp.tools.documents.jobs import pandoc
from pipecatapp.tools.documents.jobs.syntax_tree import PLAIN, Node, nodes, rewrite, text_of

READER: Final = (
    "gfm-emoji+footnotes+tex_math_dollars+yaml_metadata_block+implicit_figures+definition_lists"
    "+smart+subscript+superscript"
)
META: Final = ("title", "subtitle", "author", "date", "abstract", "lang")
"""Fields at the beginning of the text that are used."""
LANGUAGE: Final = re.compile(r"[A-Za-z]{1,30}")
SIZE: Final = re.compile(r"\d{1,4}(\.\d{1,3})?(px|cm|mm|in|%)?")
LINKS: Final = ("http://", "https://", "mailto:")
BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
COMMENT: Final = re.compile(r"\s*<!--.*?-->\s*", re.DOTALL)


@dataclass
class Cleaned:
    """A document that is ready to be written."""

    tree: dict[str, Any]
    pictures: list[str] = field(default_factory=list)
    """Targets of its pictures, each once, in the order of the text."""
    notes: list[str] = field(default_factory=list)
    """Sentences about the parts that were left out."""


def parse(path: str) -> Cleaned:
    """Return the cleaned document of a Markdown file. Raises `JobFailed` for invalid metadata."""
    tree = pandoc.parse(path, READER)
    known = {node["c"][1][0] for node in nodes(tree["blocks"], "Header")}
    cleaner = _Cleaner(known)
    blocks = rewrite(tree["blocks"], cleaner.change)
    meta = {name: rewrite(tree["meta"][name], cleaner.change)
            for name in META if name in tree["meta"]}  # fmt: skip
    pictures = list(dict.fromkeys(node["c"][2][0] for node in nodes([meta, blocks], "Image")))
    return Cleaned({**tree, "meta": meta, "blocks": blocks}, pictures, cleaner.notes())


def retarget(cleaned: Cleaned, places: dict[str, str]) -> dict[str, Any]:
    """Return the tree with each picture at its new place."""

    def change(node: Node) -> list[Node]:
        if node["t"] == "Image":
            target = node["c"][2]
            node["c"][2] = [places[target[0]], target[1]]
        return [node]

    changed: dict[str, Any] = rewrite(cleaned.tree, change)
    return changed


class _Cleaner:
    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._raw = False
        self._lost: dict[str, None] = {}
        self._local: dict[str, None] = {}

    def notes(self) -> list[str]:
        found = ["Raw HTML was left out: only its text is written."] if self._raw else []
        if self._lost:
            lost = ", ".join(list(self._lost)[:10])
            found.append(f"These links have no target in the text, so they are plain text: {lost}.")
        if self._local:
            local = ", ".join(list(self._local)[:10])
            found.append(f"Only links to web pages, e-mail and headings work, not: {local}.")
        return found

    def change(self, node: Node) -> list[Node]:
        kind: str = node["t"]
        content: Any = node.get("c")
        if kind in ("RawBlock", "RawInline"):
            return self._unraw(kind, content)
        if kind == "Div":
            alert = {"note", "tip", "important", "warning", "caution"}.intersection(content[0][1])
            blocks: list[Node] = content[1]
            return [{"t": "BlockQuote", "c": blocks}] if alert else blocks
        if kind == "Span":
            inlines: list[Node] = content[1]
            return inlines
        if kind == "Link":
            return self._link(node)
        _strip(kind, content)
        return [node]

    def _unraw(self, kind: str, content: Any) -> list[Node]:
        text = content[1]
        if kind == "RawInline" and BREAK.fullmatch(text):
            return [{"t": "LineBreak"}]
        self._raw = self._raw or not COMMENT.fullmatch(text)
        return []

    def _link(self, node: Node) -> list[Node]:
        _attributes, inlines, (target, title) = node["c"]
        if target.startswith("#") and target[1:] in self._known:
            pass
        elif not target.lower().startswith(LINKS):
            (self._lost if target.startswith("#") else self._local)[target[:80]] = None
            words: list[Node] = inlines
            return words
        node["c"] = [PLAIN, inlines, [target, title]]
        return [node]


def _strip(kind: str, content: Any) -> None:
    """Remove the attributes of a node, except language, identifier and size."""
    if kind in ("CodeBlock", "Code"):
        classes = [one for one in content[0][1][:1] if LANGUAGE.fullmatch(one)]
        content[0] = ["", classes if kind == "CodeBlock" else [], []]
    elif kind == "Header":
        content[1] = [content[1][0], [], []]
    elif kind == "Image":
        pairs = [pair for pair in content[0][2]
                 if pair[0] in ("width", "height") and SIZE.fullmatch(pair[1])]  # fmt: skip
        content[0] = ["", [], pairs]
    elif kind in ("Table", "Figure"):
        content[0] = PLAIN
    if kind == "Table":
        for column in content[2]:
            if column[0]["t"] == "AlignDefault":
                column[0] = {"t": "AlignLeft"}


def line_of(text: str, words: str) -> int:
    """Return the number of the line that contains these words, or 0."""
    for number, line in enumerate(text.splitlines(), 1):
        if words in line:
            return number
    return 0


def likely_line(text: str, code: str) -> int:
    """Return the number of the line that has most words of a line of generated code, or 0."""
    wanted = {*re.findall(r"\w{3,}", code)}
    scores = [
        (len(wanted.intersection(re.findall(r"\w{3,}", line))), -number)
        for number, line in enumerate(text.splitlines(), 1)
    ]
    best = max(scores, default=(0, 0))
    return -best[1] if best[0] else 0


def plain(value: Any) -> str:
    """Return the text of a field of the metadata."""
    return text_of(value).strip()


def inlines(text: str) -> Node:
    """Return a text as a field of the metadata."""
    return {"t": "MetaInlines", "c": [{"t": "Str", "c": text}]}
