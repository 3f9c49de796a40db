"""A true edit as the answer of a model, in six forms."""

import ast
import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

PATH = "module.py"
Opcode = tuple[int, int, int, int]
"""Lines of the old file, and the lines of the new one that replace them; ends excluded."""


@dataclass(frozen=True)
class TrueEdit:
    """A file before and after a change, as lines without line ends."""

    old: list[str]
    new: list[str]

    def changed(self) -> list[Opcode]:
        """The changed parts."""
        matcher = difflib.SequenceMatcher(None, self.old, self.new, autojunk=False)
        return [tuple(part[1:]) for part in matcher.get_opcodes() if part[0] != "equal"]  # type: ignore[misc]


def text(lines: Sequence[str]) -> str:
    """The file of these lines."""
    return "".join(f"{line}\n" for line in lines)


def whole(edit: TrueEdit) -> str:
    """The whole file in a fence."""
    fence = "````" if any("```" in line for line in edit.new) else "```"
    return f"{PATH}\n{fence}python\n{text(edit.new)}{fence}\n"


def parts(edit: TrueEdit, context: int) -> list[tuple[list[str], list[str]]]:
    """SEARCH and REPLACE lines of each change, with so many lines around; near ones are joined."""
    joined: list[list[int]] = []
    for first, last, new_first, new_last in edit.changed():
        if joined and first - joined[-1][1] <= 2 * context:
            joined[-1][1], joined[-1][3] = last, new_last
        else:
            joined.append([first, last, new_first, new_last])
    found = []
    for first, last, new_first, new_last in joined:
        before = edit.old[max(0, first - context) : first]
        after = edit.old[last : last + context]
        found.append(
            (
                [*before, *edit.old[first:last], *after],
                [*before, *edit.new[new_first:new_last], *after],
            )
        )
    return found


def search_replace(found: Sequence[tuple[list[str], list[str]]], *, fence: bool = False) -> str:
    """SEARCH/REPLACE blocks, each in a fence or without one."""
    blocks = [
        f"{PATH}\n{'```python' + chr(10) if fence else ''}<<<<<<<<< SEARCH\n{text(search)}"
        f"=========\n{text(replace)}>>>>>>>>> REPLACE\n{'```' + chr(10) if fence else ''}"
        for search, replace in found
    ]
    return "\n".join(blocks)


def diff(edit: TrueEdit, *, blob: bool = True) -> list[str]:
    """The lines of a diff as git writes it."""
    old, new = text(edit.old), text(edit.new)
    lines = list(difflib.unified_diff(edit.old, edit.new, f"a/{PATH}", f"b/{PATH}", lineterm=""))
    ids = [hashlib.sha1(f"blob {len(one.encode())}\0{one}".encode(), usedforsecurity=False)
           .hexdigest()[:7] for one in (old, new)]  # fmt: skip
    head = [f"diff --git a/{PATH} b/{PATH}", f"index {ids[0]}..{ids[1]} 100644"] if blob else []
    return [*head, *(_headed(line, edit.old) for line in lines)]


def _headed(line: str, old: Sequence[str]) -> str:
    """A hunk's header with the heading that git gives it."""
    if not line.startswith("@@ -"):
        return line
    start = int(line[4:].partition(" ")[0].partition(",")[0]) - 1
    above = [one for one in old[: max(0, start)] if one and (one[0].isalpha() or one[0] in "_$")]
    return f"{line} {above[-1].strip()[:40]}" if above else line


def fenced(lines: Sequence[str]) -> str:
    """A diff in a fence."""
    return f"```diff\n{text(lines)}```\n"


def symbol(edit: TrueEdit) -> tuple[str, list[str]] | None:
    """The one definition that the change lies in, by name, and its new source."""
    try:
        spans = [_spans(ast.parse(text(lines))) for lines in (edit.old, edit.new)]
    except SyntaxError:
        return None
    inside = [
        name
        for name, (first, last) in spans[0].items()
        if name in spans[1] and all(first <= part[0] and part[1] <= last for part in edit.changed())
    ]
    for name in reversed(inside):
        (first, last), (new_first, new_last) = spans[0][name], spans[1][name]
        if [*edit.old[:first], *edit.new[new_first:new_last], *edit.old[last:]] == edit.new:
            return name, edit.new[new_first:new_last]
    return None


def _spans(tree: ast.Module) -> dict[str, tuple[int, int]]:
    """Definitions that are there once, outer ones first."""
    found: dict[str, tuple[int, int]] = {}
    twice: set[str] = set()
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, prefix = waiting.pop(0)
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)]) - 1
                twice |= {name} & found.keys()
                found[name] = (first, child.end_lineno or 0)
            waiting.append((child, name))
    return {name: span for name, span in found.items() if name not in twice}
