"""The definitions and references of source files, read once for each content."""

import asyncio
import hashlib
import importlib.util
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Limits, Mount, Sandbox, SandboxUnusable
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import open_plain, remove
from pipecatapp.tools.code.map.tagger import LANGUAGES, LARGEST
from pipecatapp.tools.code.symbols import ctags
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.workflow import Context, ToolFailed

TAGGER: Final = Path(__file__).with_name("tagger.py")
GRAMMARS: Final = tuple(
    sorted({"tree_sitter", *(f"tree_sitter_{name}" for name, _ in LANGUAGES.values())})
)
"""Packages that the sandbox needs."""
LIMITS: Final = Limits(seconds=120, kept=64 << 20)
FILES_CACHED: Final = 20_000
"""Files whose tags are kept in memory, about 2 kB each."""


@dataclass(frozen=True)
class Tag:
    """A definition with the text before its body."""

    name: str
    qualified: str
    kind: str
    start: int
    line: int
    end: int
    header: str


@dataclass(frozen=True)
class Tags:
    """The definitions of a file, and the names that each of them uses, with a weight."""

    definitions: tuple[Tag, ...]
    references: Mapping[int, Mapping[str, int]]
    """By the index of a definition; -1 is the code outside of all. `.b` is the name of `a.b`."""


class TagCache:
    """Tags by the hash of what they were read from; the least recently used are dropped."""

    def __init__(self) -> None:
        self._tags: OrderedDict[str, Tags] = OrderedDict()

    def get(self, key: str) -> Tags | None:
        if key in self._tags:
            self._tags.move_to_end(key)
        return self._tags.get(key)

    def put(self, key: str, tags: Tags) -> None:
        self._tags[key] = tags
        while len(self._tags) > FILES_CACHED:
            self._tags.popitem(last=False)


CACHE: Final = TagCache()
"""Of all runs: the tags of a content are the same everywhere."""


async def tags_of(ctx: Context, root: Path, paths: Sequence[str]) -> dict[str, Tags]:
    """The tags of source files below `root`, by path, in order; without those that cannot be read.

    Raises `ToolFailed` where the sandbox cannot be used, or ctags is needed and missing.
    """
    hashes = await asyncio.to_thread(_hashes, root, paths)
    missing = [path for path in hashes if CACHE.get(_key(path, hashes[path])) is None]
    parsed = [path for path in missing if has_grammar(path) and "\n" not in path]
    if parsed:
        await _parse(ctx, root, {path: hashes[path] for path in parsed})
    others = [path for path in missing if not has_grammar(path) and ctags.known(path)]
    for path, found in (await ctags.definitions_in_files(ctx, root, others)).items():
        lines = await asyncio.to_thread(_lines, root, path)
        CACHE.put(_key(path, hashes[path]), _without_references(found, lines))
    keyed = {path: CACHE.get(_key(path, hashes[path])) for path in sorted(hashes)}
    return {path: tags for path, tags in keyed.items() if tags is not None}


async def _parse(ctx: Context, root: Path, hashes: Mapping[str, str]) -> None:
    """Read files in the sandbox. One that ends the program is left out, with those after it.

    A file may exploit a grammar, so only tags of the files asked for, with the hashes that were
    computed outside the sandbox, are cached.
    """
    mounts = [Mount(root, "/source"), Mount(TAGGER, "/hearth/tagger.py"), *grammar_mounts()]
    command = [python(), "-I", "/hearth/tagger.py", "/source", "/grammars"]
    guard.watch()
    with scratch(f"{guard.mark}-map", remove) as folder:
        try:
            ended = await ctx.service(Sandbox).run(
                command, folder, limits=LIMITS, mounts=mounts,
                stdin="\n".join(hashes).encode(errors="surrogateescape"),
            )  # fmt: skip
        except SandboxUnusable as error:
            raise ToolFailed(str(error)) from error
    if ended.exit_code and not ended.stdout.text:
        lines = ended.stderr.text.strip().splitlines() or [f"exit code {ended.exit_code}"]
        raise ToolFailed(f"The source files cannot be read: {lines[-1][:200]}.")
    for path, digest, tags in await asyncio.to_thread(list, _printed(ended.stdout.text)):
        if hashes.get(path) == digest:
            CACHE.put(_key(path, digest), tags)


def grammar_mounts() -> Iterator[Mount]:
    """The packages of the grammars, found without loading their native code."""
    for name in GRAMMARS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ToolFailed(f"The package {name} is not installed: install Hearth again.")
        yield Mount(Path(spec.origin).parent, f"/grammars/{name}")


def _printed(text: str) -> Iterator[tuple[str, str, Tags]]:
    for line in text.splitlines():
        try:
            fields: dict[str, Any] = json.loads(line)
            definitions = tuple(Tag(*values) for values in fields["definitions"])
            references = {int(index): names for index, names in fields["references"].items()}
            entry = str(fields["path"]), str(fields["hash"]), Tags(definitions, references)
        except (ValueError, KeyError, TypeError, AttributeError):  # cut off, or not of the tagger
            continue
        yield entry


def _without_references(found: Iterable[Definition], lines: Sequence[str]) -> Tags:
    """Return the definitions that ctags lists as tags, without references."""
    return Tags(
        tuple(
            Tag(
                one.name, one.qualified, one.kind, one.start, one.line, one.end or one.line,
                " ".join(lines[one.line - 1 : one.line]).strip().rstrip("({").rstrip()[:160],
            )
            for one in found
        ),
        {},
    )  # fmt: skip


def _hashes(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each regular file that is not too large."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            with os.fdopen(open_plain(root, path), "rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError:
            continue
        if len(data) <= LARGEST:
            found[path] = hashlib.sha256(data).hexdigest()
    return found


def _lines(root: Path, path: str) -> list[str]:
    with os.fdopen(open_plain(root, path), "rb") as stream:
        return stream.read(LARGEST).decode(errors="replace").split("\n")


def has_grammar(path: str) -> bool:
    """Whether the uses of names in a file can be read; of other files only the definitions."""
    return _suffix(path) in LANGUAGES


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _key(path: str, digest: str) -> str:
    return f"{_suffix(path)} {digest}"
