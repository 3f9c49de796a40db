"""The languages that are identified, and how each is named and run."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Language:
    """A programming language or a data format."""

    name: str
    extensions: tuple[str, ...] = ()
    """Endings of file names, with their point; the first is that of a new file."""
    names: tuple[str, ...] = ()
    """Whole file names."""
    fences: tuple[str, ...] = ()
    """Words after the opening fence of Markdown, besides the name and the extensions."""
    programs: tuple[str, ...] = ()
    """Programs of a `#!` line, without a version."""
    run: str = ""
    """The value of `language` of code.run; empty where it runs none."""
    start: str = ""
    """The command line that starts `{}`, a file of it; empty where it is not started directly."""
    ignored: tuple[str, ...] = ()
    """Lines of a .gitignore for the files that running a program leaves in its folder."""
    source: bool = True
    """Whether its files are source code."""


LANGUAGES: Final = (
    Language("Python", (".py", ".pyi"), fences=("python3",), programs=("python", "pypy"),
             run="python", start="python3 {}", ignored=("__pycache__/", ".venv/")),
    Language("JavaScript", (".js", ".mjs", ".cjs", ".jsx"), fences=("node", "nodejs"),
             programs=("node", "nodejs"), run="javascript", start="node {}",
             ignored=("node_modules/",)),
    Language("Shell", (".sh", ".bash"), fences=("shell", "zsh", "console"),
             programs=("bash", "sh", "dash"), run="bash", start="bash {}"),
    Language("SQL", (".sql",), fences=("sqlite", "postgresql", "mysql"), programs=("sqlite",),
             run="sql", start='sqlite3 -bail :memory: ".read {}"'),
    Language("TypeScript", (".ts", ".mts", ".tsx"), programs=("deno", "ts-node")),
    Language("C", (".c", ".h")),
    Language("C++", (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), fences=("c++",)),
    Language("C#", (".cs",), fences=("csharp",)),
    Language("Go", (".go",), fences=("golang",)),
    Language("Rust", (".rs",)),
    Language("Java", (".java",)),
    Language("Ruby", (".rb",), programs=("ruby",)),
    Language("PHP", (".php",), programs=("php",)),
    Language("Kotlin", (".kt",)),
    Language("Swift", (".swift",)),
    Language("HTML", (".html", ".htm")),
    Language("CSS", (".css",)),
    Language("JSON", (".json", ".webmanifest"), source=False),
    Language("YAML", (".yaml", ".yml"), source=False),
    Language("TOML", (".toml",), source=False),
    Language("Markdown", (".md",), source=False),
    Language("Make", (".mk",), names=("Makefile", "GNUmakefile"), fences=("makefile",),
             programs=("make",), source=False),
    Language("Dockerfile", names=("Dockerfile", "Containerfile"), source=False),
)  # fmt: skip
BY_NAME: Final[Mapping[str, Language]] = MappingProxyType({one.name: one for one in LANGUAGES})
BY_EXTENSION: Final[Mapping[str, Language]] = MappingProxyType(
    {ending: one for one in LANGUAGES for ending in one.extensions}
)
BY_FILE_NAME: Final[Mapping[str, Language]] = MappingProxyType(
    {name: one for one in LANGUAGES for name in one.names}
)
BY_PROGRAM: Final[Mapping[str, Language]] = MappingProxyType(
    {program: one for one in LANGUAGES for program in one.programs}
)
BY_FENCE: Final[Mapping[str, Language]] = MappingProxyType(
    {
        word: one
        for one in LANGUAGES
        for word in (one.name.lower(), *(end[1:] for end in one.extensions), *one.fences)
    }
)
SOURCE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {ending: one.name for ending, one in BY_EXTENSION.items() if one.source}
)
"""The language of source files by their extension."""
