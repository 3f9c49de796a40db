"""Identify the language of a file or a text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal

from pipecatapp.tools.code.language.languages import (
    BY_EXTENSION,
    BY_FENCE,
    BY_FILE_NAME,
    BY_NAME,
    BY_PROGRAM,
    Language,
)

Evidence = Literal["extension", "name", "shebang", "fence", "content"]
READ: Final = 16_000
"""Characters of a text that are looked at."""
LINE: Final = 300
"""Characters of a line that are looked at: a longer one is generated, and slow to match."""
OPENING: Final = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?P<word>[\w+#.-]*)[^`]*")
SIGNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Python": (
            r"^[ \t]*(async )?def \w+\(.*\).*:\s*(#.*)?$", r"^[ \t]*class \w+(\(.*\))?:\s*$",
            r"^(import [\w.]+( as \w+)?|from [\w.]+ import [\w*(, ]+)\s*(#.*)?$",
            r"^[ \t]*(if|elif|for|while|with|try|except)\b.*:\s*$", r"^if __name__ ==",
            r"^[ \t]*print\(", r"^[ \t]*(self\.\w+|\w+) = (input|open|len|sorted|list|dict)\(",
        ),
        "JavaScript": (
            r"^[ \t]*(const|let|var) [\w{\[][^=\n]*=", r"\bconsole\.(log|error)\(",
            r"\bfunction\b ?\w*\(.*\) *\{", r"=> *[{(\w]", r"\brequire\(['\"]",
            r"^(import .* from|export (default|const|function|class)) ",
            r"\b(document|process|module)\.\w+", r"===|!==", r"\bnew [A-Z]\w*\(.*\);",
        ),
        "Shell": (
            r"^[ \t]*(if|while|until) (\[|\[\[|test\b|!|\w+).*; *(then|do)\s*$",
            r"^[ \t]*(fi|done|esac)\s*(;|\||$)",
            r"^[ \t]*(echo|printf|cd|mkdir|rm|cp|export|set -\w+) ?",
            r"\$\{?\w+\}?|\$\(|\$@", r"^[ \t]*for \w+ in .*(; *do)?\s*$", r"^\w+\(\) *\{",
            r"^[A-Z_]+=\S*$",
        ),
        "SQL": (
            r"^[ \t]*create( temp(orary)?)? (table|view|index|trigger|unique index)\b",
            r"^[ \t]*insert into \w+", r"^[ \t]*select\b.*?(\bfrom\b|;)",
            r"^[ \t]*(update \w+ set|delete from|alter table|drop table|with \w+ as)\b",
            r"\b(primary key|not null|group by|order by|inner join|left join|values)\b",
            r"^[ \t]*(begin|commit|pragma)\b.*;",
        ),
        "C": (
            r"^#include <\w+\.h>", r"^[ \t]*(int|void|char|static|struct) [\w* ]+\(.*\) *\{?$",
            r"\b(printf|malloc|sizeof)\(", r"^typedef struct",
        ),
        "C++": (
            r"^#include <(iostream|vector|string|map|memory)>", r"\bstd::\w+",
            r"^[ \t]*(template *<|namespace \w+|using namespace)", r"\bcout *<<",
            r"^[ \t]*(int|void|auto) \w+\(.*\) *\{?$",
        ),
        "C#": (r"^using [\w.]+;", r"^[ \t]*namespace [\w.]+", r"\bConsole\.Write(Line)?\(",
               r"\b(public|private|static) .*\(.*\)"),
        "Go": (r"^package \w+$", r"^func (\(\w+ \*?\w+\) )?\w+\(", r"\w+ := ", r"\bfmt\.\w+\(",
               r"^import (\(|\")"),
        "Rust": (r"^[ \t]*(pub )?fn \w+.*\{?$", r"\blet (mut )?\w+", r"\b(println|vec|format)!",
                 r"^[ \t]*(use \w+(::\w+)+|impl\b|mod \w+;)", r"^#\[\w+"),
        "Java": (r"^(import [\w.]+\*?;|package [\w.]+;)", r"\bSystem\.out\.print",
                 r"\b(public|private|protected) (static )?(final )?(class|void|\w+) \w+",
                 r"\bString\[\] \w+"),
        "TypeScript": (r"^[ \t]*(export )?(interface|type|enum) \w+( =|<.*>)? *\{?",
                       r"\b(const|let) \w+: \w+", r"\(.*\w+\??: (string|number|boolean)\b"),
    }
)  # fmt: skip
"""Lines that a language has and prose has not; two different ones are needed."""
_SIGNS: Final = {
    name: [re.compile(one, re.MULTILINE | (re.IGNORECASE if name == "SQL" else 0)) for one in signs]
    for name, signs in SIGNS.items()
}
STARTS: Final = (
    (re.compile(r"\s*<(!doctype html|html)\b", re.IGNORECASE), "HTML"),
    (re.compile(r"\s*<\?php\b"), "PHP"),
)
ENOUGH: Final = 2


@dataclass(frozen=True)
class Identified:
    """A language and the evidence for it; None for both if there is none."""

    language: Language | None
    by: Evidence | None
    code: str
    """The text; of a fenced program in other text, the program alone."""


def identify(path: str, text: str = "") -> Identified:
    """Identify a language by the extension, the file name, `#!`, the fence, or the content.

    The first of these that knows the language decides. An empty `path` is a text without a file.
    """
    by_path = _of_path(path)
    if by_path is not None:
        return Identified(*by_path, text)
    if (shebang := _of_shebang(text)) is not None:
        return Identified(shebang, "shebang", text)
    if not PurePosixPath(path).suffix and (fenced := _fenced(text)):
        word, code = fenced
        if (language := BY_FENCE.get(word.lower())) is not None:
            return Identified(language, "fence", code)
        inner = identify("", code)
        if inner.language is not None:
            return inner
    content = None if PurePosixPath(path).suffix else of_content(text)
    return Identified(content, None if content is None else "content", text)


def _of_path(path: str) -> tuple[Language, Evidence] | None:
    name = PurePosixPath(path).name
    if language := BY_EXTENSION.get(PurePosixPath(name).suffix.lower()):
        return language, "extension"
    if language := BY_FILE_NAME.get(name):
        return language, "name"
    return None


def _of_shebang(text: str) -> Language | None:
    """The language of the first program that the first line names."""
    if not text.startswith("#!"):
        return None
    words = text[2:200].partition("\n")[0].split()
    programs = [PurePosixPath(word).name.rstrip("0123456789.") for word in words]
    return next((BY_PROGRAM[one] for one in programs if one in BY_PROGRAM), None)


def _fenced(text: str) -> tuple[str, str] | None:
    """The word after the first fence that is closed, and the text inside of it."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if opening := OPENING.fullmatch(line.rstrip()):
            ends = (end for end in range(at + 1, len(lines)) if lines[end].strip() == opening[1])
            end = next(ends, None)
            return None if end is None else (opening["word"], "".join(lines[at + 1 : end]))
    return None


def of_content(text: str) -> Language | None:
    """The language whose signs the text has; None for prose, or where two fit equally well."""
    text = "\n".join(line[:LINE] for line in text[:READ].splitlines())
    for start, name in STARTS:
        if start.match(text):
            return BY_NAME[name]
    if text.lstrip()[:1] in ("{", "[") and _is_json(text):
        return BY_NAME["JSON"]
    counts = {name: sum(bool(one.search(text)) for one in signs) for name, signs in _SIGNS.items()}
    first, second = sorted(counts, key=lambda name: -counts[name])[:2]
    if counts[first] < ENOUGH or counts[first] == counts[second]:
        return None
    return BY_NAME[first]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
