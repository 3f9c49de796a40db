"""Lists the definitions and references of source files. Runs in the sandbox.

    python -I tagger.py SOURCE GRAMMARS <files, one per line

The grammars are native code that reads what nobody has checked, so they do not run in the service.
Prints one line of JSON for each file that has been read: `path`, `hash` (SHA-256 of what was read),
`definitions` as `[name, qualified, kind, start, line, end, header]` with lines from 1, and
`references`: for the index of a definition (-1: outside of all) the names in it and their weight;
`.b` is the name of `a.b`.
"""

import hashlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

LANGUAGES = {
    ".py": ("python", "language"), ".pyi": ("python", "language"),
    ".js": ("javascript", "language"), ".mjs": ("javascript", "language"),
    ".cjs": ("javascript", "language"), ".jsx": ("javascript", "language"),
    ".ts": ("typescript", "language_typescript"), ".mts": ("typescript", "language_typescript"),
    ".tsx": ("typescript", "language_tsx"),
    ".go": ("go", "language"), ".rs": ("rust", "language"), ".java": ("java", "language"),
    ".c": ("c", "language"), ".h": ("cpp", "language"), ".cc": ("cpp", "language"),
    ".cpp": ("cpp", "language"), ".cxx": ("cpp", "language"), ".hh": ("cpp", "language"),
    ".hpp": ("cpp", "language"), ".hxx": ("cpp", "language"), ".cs": ("c_sharp", "language"),
    ".sh": ("bash", "language"), ".bash": ("bash", "language"),
}  # fmt: skip
"""The grammar of a file: the package `tree_sitter_<name>` and its function."""
KINDS = {
    "class_definition": "class", "class_declaration": "class", "class_specifier": "class",
    "abstract_class_declaration": "class", "record_declaration": "class",
    "function_definition": "function", "function_declaration": "function",
    "generator_function_declaration": "function", "function_item": "function",
    "function_signature_item": "function", "preproc_function_def": "function",
    "method_definition": "method", "method_declaration": "method",
    "constructor_declaration": "method", "property_declaration": "method",
    "struct_specifier": "struct", "struct_declaration": "struct", "struct_item": "struct",
    "union_specifier": "union", "union_item": "union",
    "enum_specifier": "enum", "enum_declaration": "enum", "enum_item": "enum",
    "interface_declaration": "interface", "trait_item": "interface",
    "type_definition": "typedef", "type_spec": "typedef", "type_item": "typedef",
    "type_alias_declaration": "typedef",
    "namespace_definition": "namespace", "namespace_declaration": "namespace",
    "internal_module": "namespace", "mod_item": "namespace",
}  # fmt: skip
"""Nodes of the grammars that are definitions; no type means different things in two of them."""
TYPES = frozenset({"class", "struct", "union", "enum", "interface"})
"""Functions inside these are methods."""
BODY_NEEDED = frozenset({"class_specifier", "struct_specifier", "union_specifier",
                         "enum_specifier", "mod_item"})  # fmt: skip
"""Without a body these only name a type."""
FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
ASSIGNED = frozenset({"variable_declarator", "public_field_definition", "field_definition"})
"""Definitions if their value is a function."""
CALLS = frozenset({"call", "call_expression", "invocation_expression", "method_invocation",
                   "object_creation_expression", "new_expression", "macro_invocation",
                   "command_name"})  # fmt: skip
CALLED = ("function", "name", "constructor", "type", "macro")
"""Fields of a call that hold what is called."""
LAST_PARTS = ("attribute", "property", "field", "name")
"""Fields of `a.b` that hold `b`."""
PARAMETERS = frozenset({"parameters", "lambda_parameters", "typed_parameter", "default_parameter",
                        "typed_default_parameter", "keyword_argument"})  # fmt: skip
"""Parents of a name that is only a parameter's."""
CALL_WEIGHT = 4
"""How much more a call says than any other use of a name, which may be a variable's."""
LARGEST = 1 << 20
"""Bytes of a file that is read."""
MOST = 5000
"""Definitions of a file."""
LONGEST = 160
"""Characters of a header."""
LONGEST_NAME = 200


class File:
    """The tags of one file."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.definitions: list[tuple[str, str, str, int, int, int, str]] = []
        self.references: dict[int, Counter[str]] = {}

    def read(self, root: "Node") -> None:
        """Walk the tree without recursion, which deep nesting would exhaust."""
        cursor = root.walk()
        # For each open node: the definition around it, and the names of all around it.
        around: list[tuple[int, tuple[str, ...], str]] = [(-1, (), "")]
        node: Node | None = root
        while node is not None:
            around.append(self._enter(node, *around[-1]))
            if not cursor.goto_first_child():
                around.pop()
                while not cursor.goto_next_sibling():
                    if not cursor.goto_parent():
                        return
                    around.pop()
            node = cursor.node

    def _enter(
        self, node: "Node", index: int, scope: tuple[str, ...], kind: str
    ) -> tuple[int, tuple[str, ...], str]:
        if node.type == "impl_item":
            type_name = _first(node.child_by_field_name("type"), "type_identifier")
            return index, (*scope, self._text(type_name)) if type_name else scope, "class"
        found = _definition(node)
        if found is not None and len(self.definitions) < MOST:
            return self._define(node, *found, scope, kind)
        if not node.child_count and node.is_named and _is_name(node):
            weight = CALL_WEIGHT if _is_called(node) else 1
            name = f".{self._text(node)}" if _is_last_part(node) else self._text(node)
            self.references.setdefault(index, Counter())[name] += weight
        return index, scope, kind

    def _define(
        self, node: "Node", kind: str, name: "Node", scope: tuple[str, ...], around: str
    ) -> tuple[int, tuple[str, ...], str]:
        names = (*scope, *_receiver(self, node), *self._text(name).split("::"))
        if kind == "function" and around in TYPES:
            kind = "method"
        decorated = node.parent is not None and node.parent.type == "decorated_definition"
        first = node.parent if decorated and node.parent is not None else node
        self.definitions.append(
            (
                names[-1], ".".join(names), kind, first.start_point[0] + 1,
                name.start_point[0] + 1, node.end_point[0] + 1, self._header(node),
            )
        )  # fmt: skip
        return len(self.definitions) - 1, names, kind

    def _header(self, node: "Node") -> str:
        """The text before the body, on one line."""
        body = node.child_by_field_name("body")
        if node.type in ASSIGNED and (value := node.child_by_field_name("value")):
            body = value.child_by_field_name("body")
        end = body.start_byte if body else min(node.end_byte, node.start_byte + 4 * LONGEST)
        text = self.source[node.start_byte : end].decode(errors="replace")
        if body is None:
            text = text.partition("{")[0].partition("\n")[0]
        header = " ".join(text.split()).rstrip(" :{;=>")
        return header if len(header) <= LONGEST else f"{header[: LONGEST - 1]}…"

    def _text(self, node: "Node") -> str:
        end = min(node.end_byte, node.start_byte + LONGEST_NAME)
        return self.source[node.start_byte : end].decode(errors="replace")


def _definition(node: "Node") -> "tuple[str, Node] | None":
    """The kind and the name of a node that is a definition."""
    kind = KINDS.get(node.type)
    if kind is None:
        return _assigned(node)
    if node.type in BODY_NEEDED and node.child_by_field_name("body") is None:
        return None
    name = node.child_by_field_name("name") or _declared(node)
    return (kind, name) if name is not None else None


def _assigned(node: "Node") -> "tuple[str, Node] | None":
    """A function that is assigned to a name, or a variable of a Python module."""
    if node.type in ASSIGNED:
        value = node.child_by_field_name("value")
        name = node.child_by_field_name("name") or node.child_by_field_name("property")
        return ("function", name) if name and value and value.type in FUNCTIONS else None
    if node.type != "assignment" or node.parent is None or node.parent.parent is None:
        return None
    name = node.child_by_field_name("left")
    at_top = node.parent.parent.type == "module"
    return ("other", name) if at_top and name and name.type == "identifier" else None


def _declared(node: "Node") -> "Node | None":
    """The name in a declarator of C: `*f(int a)` declares f."""
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        node, inner = inner, inner.child_by_field_name("declarator")
        if inner is None and node.type.endswith("_declarator") and node.named_children:
            inner = node.named_children[0]
    return node if node.type.endswith("identifier") or node.type == "operator_name" else None


def _receiver(file: File, node: "Node") -> tuple[str, ...]:
    """The type whose method a function of Go is."""
    name = _first(node.child_by_field_name("receiver"), "type_identifier")
    return (file._text(name),) if name else ()


def _first(node: "Node | None", kind: str) -> "Node | None":
    """The first node of a type in a small tree."""
    waiting = [node] if node is not None else []
    while waiting:
        one = waiting.pop()
        if one.type == kind:
            return one
        waiting.extend(reversed(one.children[:50]))
    return None


def _is_name(node: "Node") -> bool:
    parent = node.parent
    if parent is None:
        return False
    if node.type == "word":
        return parent.type == "command_name"
    if not node.type.endswith("identifier"):
        return False
    if parent.type in PARAMETERS:
        # A default value or an annotation is a use; the name is not.
        named = parent.child_by_field_name("name")
        return named is not None and named != node
    found = _definition(parent)
    return found is None or found[1] != node


def _is_called(node: "Node") -> bool:
    """Whether a name is what a call calls, also as the last part of `a.b`."""
    parent = node.parent
    if parent is not None and parent.type not in CALLS and _is_last_part(node):
        node, parent = parent, parent.parent
    if parent is None or parent.type not in CALLS:
        return False
    return parent.type == "command_name" or any(
        parent.child_by_field_name(one) == node for one in CALLED
    )


def _is_last_part(node: "Node") -> bool:
    """Whether a name is the `b` of `a.b`."""
    parent = node.parent
    return (
        parent is not None
        and parent.child_count > 1
        and any(parent.child_by_field_name(one) == node for one in LAST_PARTS)
    )


class Languages:
    """The parsers, each loaded when it is needed."""

    def __init__(self) -> None:
        self._parsers: dict[tuple[str, str], Parser] = {}

    def parser(self, path: str) -> "Parser | None":
        """The parser of a file; None for an unknown language."""
        known = LANGUAGES.get(PurePosixPath(path).suffix.lower())
        if known is None:
            return None
        if known not in self._parsers:
            library = importlib.import_module("tree_sitter")
            grammar = importlib.import_module(f"tree_sitter_{known[0]}")
            language: Language = library.Language(getattr(grammar, known[1])())
            self._parsers[known] = library.Parser(language)
        return self._parsers[known]


def tags(languages: Languages, root: Path, paths: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The tags of each file that can be read; others are left out."""
    for path in paths:
        parser = languages.parser(path)
        try:
            with (root / path).open("rb") as stream:
                source = stream.read(LARGEST + 1)
        except OSError:
            continue
        if parser is None or len(source) > LARGEST:
            continue
        file = File(source)
        file.read(parser.parse(source).root_node)
        yield {
            "path": path,
            "hash": hashlib.sha256(source).hexdigest(),
            "definitions": file.definitions,
            "references": file.references,
        }


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    for one in tags(Languages(), Path(sys.argv[1]), iter(sys.stdin.read().splitlines())):
        sys.stdout.write(json.dumps(one) + "\n")
        sys.stdout.flush()
