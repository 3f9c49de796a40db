"""Rename a node of a document, with all references to it.

Names occur in expressions, `needs`, `goto` and `on_error`. An expression is split by Jinja's own
lexer, whose tokens joined give the text again, so nothing else in it changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError

_LEXER: Final = Environment(autoescape=False)
_VISITS: Final = frozenset({"last", "all", "[]"})
"""Fields between a loop and the outputs of one of its iterations."""
_SPACE: Final = "whitespace"


@dataclass(frozen=True)
class Rename:
    """From `old` to `new`, of a node in the scope of `around`: ids from the outermost inwards."""

    old: str
    new: str
    around: tuple[str, ...] = ()

    def everywhere(self, document: Any) -> None:
        """Follow `around.old`, and `prev.…` of it, in the whole document."""
        self._walk(document, inside=False)

    def inside(self, holder: Any) -> None:
        """Follow `old` and `prev.old` in what holds its scope, and where it is named outright."""
        self._walk(holder, inside=True)
        for node in _nodes(holder):
            if node.get("goto") == self.old:
                node["goto"] = self.new
            if isinstance(node.get("on_error"), dict) and node["on_error"].get("goto") == self.old:
                node["on_error"]["goto"] = self.new
            needs = node.get("needs")
            if needs == self.old:
                node["needs"] = self.new
            elif isinstance(needs, list):
                needs[:] = [self.new if one == self.old else one for one in needs]

    def _walk(self, value: Any, *, inside: bool) -> None:
        for key, said in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if isinstance(said, str) and "{{" in said:
                followed = self.followed(said, inside=inside)
                if followed != said:
                    value[key] = type(said)(followed)
            elif isinstance(said, dict | list):
                self._walk(said, inside=inside)

    def followed(self, source: str, *, inside: bool) -> str:
        """Return the text with the name replaced; a text without an expression is unchanged."""
        try:
            tokens = list(_LEXER.lex(source))
        except TemplateSyntaxError:
            return source
        chains = _Chains()
        pieces = []
        for _, kind, text in tokens:
            means_it = (
                kind == "name" and text == self.old and self._is(chains.before(), inside=inside)
            )
            if kind == "string" and chains.selects and text[1:-1].split(".")[0] == self.old:
                means_it = self._is(chains.read, inside=False)
                pieces.append(text.replace(self.old, self.new, 1) if means_it else text)
            else:
                pieces.append(self.new if means_it else text)
            chains.take(kind, text)
        return "".join(pieces)

    def _is(self, chain: tuple[str, ...] | None, *, inside: bool) -> bool:
        """Return whether the object before a name is the scope that contains the node."""
        if chain is None:
            return False
        plain = tuple(name for name in chain if name not in _VISITS)
        if not plain:
            return inside and not chain
        if plain[0] == "prev":
            return (inside and len(plain) == 1) or (len(plain) > 1 and self._ends(plain[1:]))
        return self._ends(plain)

    def _ends(self, chain: tuple[str, ...]) -> bool:
        return bool(chain) and self.around[-len(chain) :] == chain


@dataclass
class _Chains:
    """Which look-up a name of an expression belongs to: `a.b[0].c` is read from left to right."""

    chain: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    """The last complete look-up, for a filter after it."""
    after: str = ""
    selects: bool = False
    """Whether `attribute=` precedes the token, which then names a field of each item."""
    _outer: list[tuple[str, ...]] = field(default_factory=list)

    def before(self) -> tuple[str, ...] | None:
        """Return the object in which a name at this position is looked up; None if it names no
        value."""
        if self.after == ".":
            return self.chain
        return None if self.after in ("|", "is", "name") else ()

    def take(self, kind: str, text: str) -> None:
        """Process one token."""
        if kind == _SPACE:
            return
        if kind == "name" and text not in ("and", "or", "not", "if", "else", "in", "is"):
            self._name(text)
        elif (kind, text) == ("operator", "["):
            self._outer.append(self.chain)
            self.after = text
        elif (kind, text) == ("operator", "]") and self._outer:
            self.chain = (*self._outer.pop(), "[]")
            self.read, self.after = self.chain, text
        else:
            self.selects = text == "=" and self.selects
            self.after = text

    def _name(self, text: str) -> None:
        if self.after == ".":
            self.chain = (*self.chain, text)
        elif self.after != "|":
            self.chain = (text,)
        self.selects = text == "attribute"
        if self.after != "|" and not self.selects:
            self.read = self.chain
        self.after = "name"


def _nodes(holder: Any) -> Iterator[Any]:
    """The nodes of one scope, those of `else` lists too."""
    for key in ("steps", "graph", "else"):
        for node in holder.get(key) or ():
            if isinstance(node, dict):
                yield node
                if "else" in node:
                    yield from _nodes({"else": node["else"]})
