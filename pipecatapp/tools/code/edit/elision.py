"""New lines that stand for code which the answer leaves out."""

import ast
import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.code.edit.refusal import Refused

MARK: Final = r"(?:\.{3,}|…)"
PART: Final = (
    r"(?:code|files?|class|functions?|methods?|modules?|implementation|lines?|content|logic|body"
    r"|imports?)"
)
OTHER: Final = (
    r"(?:rest|remaining|remainder|others?|existing|previous|same|original|unchanged|unmodified"
    r"|omitted|(?:übrige|restliche|bisherige)[rnms]?)"
)
SAME: Final = (
    r"(?:unchanged|unmodified|untouched|omitted|as (?:before|is)|(?:stays?|remains?)(?: the same)?"
    r"|goes here|here|above|below|unverändert|bleib(?:t|en)|wie (?:bisher|zuvor))"
)
COMMENT: Final = re.compile(r"\s*(?:#+|//+|/\*+|\*|--|;+|<!--|%|\{/\*|\(\*|\()\s*(?P<text>.*)")
CLOSING: Final = re.compile(r"\s*(?:\*/\}?|-->|\*\)|[\])>}]+)\s*$")
PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{MARK}",
        rf"{MARK}.*\b(?:{OTHER}|{PART}|unverändert)\b.*",
        rf".*\b(?:{OTHER}|{PART}|unverändert)\b.*{MARK}",
        rf"(?:the )?(?:rest|remaining|remainder)\b.*\b{SAME}\W*",
        rf"(?:the )?rest of (?:the |this |your )?{PART}\W*",
        rf"(?:the |your )?{OTHER} {PART}(?: {SAME}.*)?\W*",
        rf"(?:{PART} |rest )?(?:is |are )?{SAME}\W*",
        rf"(?:keep|same) (?:the )?(?:{OTHER}|as)\b.*",
        r"(?:der |die |das )?(?:rest|(?:restliche|übrige)[rnms]? \w+) (?:bleib(?:t|en) )?"
        r"(?:unverändert|gleich|wie .*)\W*",
        r"(?:no changes?|your code)(?: here| goes here| below| above)?\W*|omitted for brevity\W*",
    )
)
LONGEST: Final = 200
"""Characters of a line that may stand for code; the patterns take long on longer ones."""
DOTS: Final = ("...", "…")
GAP: Final = 3
"""Lines that go away for nothing, from which a line beside them is looked at."""
WHOLE_LEAST: Final = 20
"""Lines from which a file that shrinks below half is not believed to be whole."""


def check_elision(path: str, old: Sequence[str], new: Sequence[str], at: int) -> None:
    """Refuse new lines such as `# … rest unchanged`, unless the file had them before.

    Raises `Refused`.
    """
    before = Counter(line.strip() for line in old)
    counted = Counter(line.strip() for line in new)
    for line, count in counted.items():
        if count > before[line] and _stands_for_code(line, path):
            raise Refused(
                "elision",
                f"The answer leaves code out ({line[:80]!r}): write every line that stays.",
                at=at,
            )


def check_gaps(path: str, old: Sequence[str], new: Sequence[str], at: int) -> None:
    """Refuse lines that go away beside a line which may stand for them, though the file had such a
    line before, as in a doctest. Raises `Refused`.
    """
    for _, first, last, new_first, new_last in difflib.SequenceMatcher(
        None, old, new
    ).get_opcodes():
        if last - first - (new_last - new_first) < GAP:
            continue
        near = (line.strip() for line in new[max(0, new_first - 1) : new_last + 1])
        if any(line in DOTS or _stands_for_code(line, path) for line in near):
            raise Refused(
                "elision",
                f"{last - first} lines from line {first + 1} on go away beside a line that may"
                " stand for them: write every line that stays.",
                at=at,
            )


def check_whole(old: Sequence[str], new: Sequence[str], at: int) -> None:
    """Refuse a whole file with less than half of the lines it had. Raises `Refused`."""
    before, after = (sum(1 for line in lines if line.strip()) for lines in (old, new))
    if before >= WHOLE_LEAST and after * 2 < before:
        raise Refused(
            "elision",
            f"The answer has {after} lines for a file of {before}: give the whole file, or only the"
            " changes as SEARCH/REPLACE blocks or a diff.",
            at=at,
        )


def check_python_bodies(old: str, new: str, at: int) -> None:
    """Refuse `...` beside other statements, or as the new body of a definition that had one.

    Both texts have to parse, or nothing is checked. Raises `Refused`.
    """
    try:
        before, after = ast.parse(old), ast.parse(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    if _loose(after, new) > _loose(before, old):
        raise Refused("elision", "`...` stands for code: write every line that stays.", at=at)
    had = {name: _dots(body) for name, body in _bodies(before)}
    for name, body in _bodies(after):
        dots, size = _dots(body)
        old_dots, _ = had.get(name, (dots and size == 1, size))
        if dots and not old_dots:
            raise Refused(
                "elision", f"`...` stands for the body of {name}: write all of it.", at=at
            )


def _loose(tree: ast.Module, text: str) -> int:
    """Lines of `...` that are not the body of a definition."""
    lines = sum(line.strip() in DOTS for line in text.split("\n"))
    bodies = [body for _, body in _bodies(tree) if _dots(body) == (True, 1)]
    own = {body[-1].lineno for body in bodies if _is_dots_statement(body[-1])}
    written = text.split("\n")
    return lines - sum(written[line - 1].strip() == "..." for line in own)


def _is_dots_statement(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and _is_dots(one.value)


def _bodies(tree: ast.AST) -> "list[tuple[str, list[ast.stmt]]]":
    """The bodies of classes and functions, with their qualified names."""
    found: list[tuple[str, list[ast.stmt]]] = []
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, name = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}" if name else node.name
            found.append((name, node.body))
        stack += [(child, name) for child in ast.iter_child_nodes(node)]
    return found


def _dots(body: "list[ast.stmt]") -> tuple[bool, int]:
    """Whether one of the statements is `...`, and how many there are beside a docstring."""
    parts = [one for one in body if not (isinstance(one, ast.Expr) and _is_text(one.value))]
    dots = [one for one in parts if _is_dots_statement(one)]
    return bool(dots), len(parts)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _is_dots(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is ...


def _stands_for_code(line: str, path: str) -> bool:
    if len(line) > LONGEST:
        return False
    if line in DOTS:
        return not path.endswith((".py", ".pyi"))
    found = COMMENT.fullmatch(line)
    text = found["text"] if found else line if re.match(MARK, line) else ""
    text = CLOSING.sub("", text).strip().lstrip("[(<{").strip()
    return bool(text) and any(pattern.fullmatch(text) for pattern in PATTERNS)
