"""git, called so that nothing in a repository or a folder can make it run a program.

Hooks, the file system monitor, filters, merge drivers and external diffs are all commands that a
repository's files may name. Here none is ever looked up: the git directory is out of the sandbox's
reach, every call turns them off, and the folder is looked through by us, not by git.
"""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipecatapp.workflow import ToolFailed

OLDEST: Final = (2, 38)
"""The first git that merges without a folder: `git merge-tree --write-tree`."""
SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "diff.external=",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",
    "user.name=Hearth",
    "user.email=hearth@localhost",
)
"""Settings with precedence over configuration files. File names that other systems treat specially
are harmless here, and refusing them would let a program break a workspace with a file `git~1`.
"""
PLAIN: Final = "* !text !eol !ident !filter !working-tree-encoding !diff !merge !export-subst\n"
"""Content of `info/attributes`, which has precedence over a `.gitattributes` of the folder: files
are stored unchanged, without filters.
"""
PROTECTED: Final = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n"
"""For the programs that git itself starts, which do not see `SETTINGS`."""
ATTEMPT_SECONDS: Final = 600.0


class GitFailed(ToolFailed):
    """git failed; the message has its error."""


@dataclass(frozen=True)
class Git:
    """Calls git on one git directory, and on a folder and an index where they are named."""

    directory: Path

    async def __call__(
        self,
        *words: str,
        folder: Path | None = None,
        index: Path | None = None,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        settings: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Exit code and output; a code that is not `ok` raises `GitFailed`."""
        place = [f"--git-dir={self.directory}"]
        if folder is not None:
            place.append(f"--work-tree={folder}")
        extra = dict(settings or {})
        if index is not None:
            extra["GIT_INDEX_FILE"] = str(index)
        return await run([*place, *words], self.directory, stdin, ok, extra)

    async def text(self, *words: str, folder: Path | None = None, index: Path | None = None) -> str:
        """The output without its last line end."""
        _, said = await self(*words, folder=folder, index=index)
        return said.decode(errors="replace").rstrip("\n")


async def run(
    words: Sequence[str],
    home: Path,
    stdin: bytes = b"",
    ok: Sequence[int] = (0,),
    extra: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Run git anywhere, with all its doors shut. `home` holds the file of `PROTECTED`."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    verb = next((word for word in words if not word.startswith("-")), "")
    # uvloop starts a process with fork, which copies the page tables of this one: that takes about
    # ten times as long as git itself. `subprocess` uses vfork.
    process = subprocess.Popen(  # noqa: ASYNC220 (it blocks for less time than a fork)
        ["git", *settings, *words],
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**environment(home), **(extra or {})}, cwd="/",
        start_new_session=True,
    )  # fmt: skip
    ending = asyncio.create_task(
        asyncio.to_thread(process.communicate, stdin or None, ATTEMPT_SECONDS)
    )
    try:
        said, complained = await asyncio.shield(ending)
    except subprocess.TimeoutExpired as error:
        process.kill()
        await asyncio.to_thread(process.communicate)
        raise GitFailed(f"git {verb} took longer than {ATTEMPT_SECONDS:.0f} s.") from error
    except asyncio.CancelledError:
        process.kill()
        await asyncio.wait({ending})
        raise
    code = process.returncode
    if code not in ok:
        reason = complained.decode(errors="replace").strip().splitlines()
        raise GitFailed(f"git {verb} failed: {reason[-1] if reason else f'exit code {code}'}")
    return code, said


def environment(home: Path) -> dict[str, str]:
    """Return an environment without the user's own settings and without prompts."""
    return {
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(home / "protected"),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


async def make(directory: Path) -> Git:
    """A new git directory without a folder."""
    _lay_out(directory)
    await run(["init", "--quiet", "--bare", "--template=", str(directory)], directory)
    return Git(directory)


def _lay_out(directory: Path) -> None:
    (directory / "info").mkdir(parents=True)
    (directory / "info" / "attributes").write_text(PLAIN, encoding="ascii")
    (directory / "protected").write_text(PROTECTED, encoding="ascii")
