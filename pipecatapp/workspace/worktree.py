"""One folder of a run, and the hidden commits that keep its states."""

import asyncio
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from pipecatapp.sandbox import tree as files
from pipecatapp.sandbox.tree import Entry, TooLarge
from pipecatapp.workflow import ToolFailed, Worktree
from pipecatapp.workspace.git import Git, GitFailed, run
from pipecatapp.workspace.stored import StoredFile, content_of, files_of

DEPTH: Final = 100
"""Folders inside each other; the sandbox lets no program go deeper."""
HIDDEN: Final = frozenset({".git"})
"""Names that are skipped: a program may have created a repository there."""
MAIN: Final = "main"
"""Name of the folder that every run has."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
STATE: Final = re.compile(r"[0-9a-f]{40,64}")
SUBMODULE: Final = "160000"


@dataclass
class Store:
    """The git directory of one run; all its worktrees keep their states here."""

    run: str
    root: Path
    git: Git
    source: Path | None = None
    numbers: "count[int]" = field(default_factory=count)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def ref(self, name: str) -> str:
        return f"refs/hearth/{self.run}/{name}"

    async def keep(self, tree: str, parents: Sequence[str], about: str, *refs: str) -> str:
        """Create a hidden commit with the next number, and set `refs` to it. Returns its id."""
        words = [word for parent in parents for word in ("-p", parent)]
        _, made = await self.git("commit-tree", *words, tree, stdin=about.encode())
        state = made.decode().strip()
        await self.point(state, self.ref(f"{next(self.numbers):06}"), *refs)
        return state

    async def point(self, state: str, *refs: str) -> None:
        """Set refs to a state in one transaction, whatever they pointed to before."""
        lines = "".join(f"update {ref} {state}\n" for ref in refs)
        await self.git("update-ref", "--stdin", stdin=lines.encode())


@dataclass
class GitWorktree:
    """A folder next to the git directory, with a separate index."""

    store: Store
    name: str

    @property
    def folder(self) -> Path:
        """Where tools work: `Context.workspace`."""
        return self.store.root / "folders" / self.name

    @property
    def _index(self) -> Path:
        return self.store.git.directory / f"index-{self.name}"

    @property
    def _head(self) -> str:
        return self.store.ref(f"heads/{self.name}")

    @property
    def _base(self) -> str:
        return self.store.ref(f"bases/{self.name}")

    async def head(self) -> str:
        """Return the id of the last stored state."""
        return await self.store.git.text("rev-parse", "--verify", self._head)

    async def commit(self, about: str) -> str:
        """Store the current state of the folder; returns its id, also without a change."""
        async with self.store.writing:
            known = await self.store.git.text("rev-parse", self._head, f"{self._head}^{{tree}}")
            head, before = known.split()
            tree = await self._tree()
            if tree == before:
                return head
            return await self.store.keep(tree, [head], about, self._head)

    async def tree(self) -> str:
        """Return the hash of the folder's content, independent of its history."""
        async with self.store.writing:
            return await self._tree()

    async def content(self, state: str) -> str | None:
        """Return the hash of the files of a stored state; None if the state does not exist."""
        if not STATE.fullmatch(state):
            raise ToolFailed(f"{state!r} is not a state of a workspace.")
        words = ("rev-parse", "--verify", "--quiet", f"{state}^{{tree}}")
        code, said = await self.store.git(*words, ok=(0, 1))
        return None if code else said.decode().strip()

    async def files(self, state: str) -> dict[str, StoredFile]:
        """Return the regular files of a stored state by path."""
        return await files_of(self.store.git, state)

    async def read(self, file: StoredFile) -> bytes:
        """Return the content of a file of a stored state."""
        return await content_of(self.store.git, file)

    async def base(self) -> str:
        """Return the id of the initial state."""
        return await self.store.git.text("rev-parse", "--verify", self._base)

    async def reset(self, state: str) -> None:
        """Restore the folder to a stored state. Later states are not deleted."""
        if not STATE.fullmatch(state):
            raise ToolFailed(f"{state!r} is not a state of a workspace.")
        async with self.store.writing:
            await self._show(await self.store.git.text("rev-parse", f"{state}^{{commit}}"))

    async def diff(self, since: str, until: str) -> str:
        """Return the changes between two states, as a unified diff."""
        return await self.store.git.text(
            "diff-tree", "-p", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color",
            "--submodule=short", *(f"{state}^{{tree}}" for state in (since, until)),
        )  # fmt: skip

    async def fork(self, name: str, state: str | None = None) -> Worktree:
        """Create a second folder from a state, by default the last one of this folder; an existing
        folder is reused.

        Any text is a valid name, such as the path of an instance: `each[2]/patch`.
        """
        other = GitWorktree(self.store, folder_name(name))
        async with self.store.writing:
            code, _ = await self.store.git(
                "rev-parse", "--verify", "--quiet", other._head, ok=(0, 1)
            )
            if code or not other._index.exists():
                begin = state or await self.head()
                await self.store.git("update-ref", other._base, begin)
                await other._show(begin)
        return other

    async def merge(self, forks: Sequence[Worktree]) -> str:
        """Merge the last states of forks into this folder, and remove the forks.

        Returns the new state. Raises `ToolFailed` with the files that conflict; then nothing has
        changed.
        """
        async with self.store.writing:
            state = await self.head()
            for fork in forks:
                state = await self._merged(state, fork)
            await self._show(state)
        for fork in forks:
            await fork.remove()
        return state

    async def remove(self) -> None:
        """Remove the folder; its states stay stored."""
        async with self.store.writing:
            await asyncio.to_thread(files.remove, self.folder)
            self._index.unlink(missing_ok=True)
            await self.store.git("update-ref", "-d", self._head)

    async def deliver(self, about: str) -> str:
        """Write one commit on the branch `run/<id>` of the source, for review by a person.

        It contains the changes since the start, without files in `.gitignore`. Returns its id. A
        later delivery replaces an earlier one; an equal one has no effect. Raises `ToolFailed` if
        the workspace has no source or the branch was changed.
        """
        git, source, start = self.store.git, self.store.source, self.store.ref("start")
        if source is None:
            raise ToolFailed("This workspace was not made from a repository.")
        async with self.store.writing:
            wanted = (await self.reviewable(start), about.rstrip())
            refs = [self.store.ref("delivering"), self.store.ref("delivered")]
            _, listed = await git("for-each-ref", "--format=%(objectname)", *refs)
            known = listed.decode().split()
            same = [one for one in known if await self.content_of(one) == wanted]
            commit = same[0] if same else await self.new_commit(wanted[0], start, about)
            await git("update-ref", refs[0], commit)
            await self._push(source, commit, known)
            await git("update-ref", refs[1], commit)
        return commit

    async def merge_commit(self, commit: str, about: str) -> str:
        """Bring a commit of this run into the folder, as `merge` does with forks."""
        async with self.store.writing:
            state = await self._merged_with(await self.head(), commit, about)
            await self._show(state)
        return state

    async def new_commit(self, tree: str, parent: str, about: str) -> str:
        """A commit that no branch names yet."""
        _, made = await self.store.git("commit-tree", "-p", parent, tree, stdin=about.encode())
        return made.decode().strip()

    async def content_of(self, commit: str) -> tuple[str, str]:
        """The tree and the message of a commit."""
        said = await self.store.git.text("cat-file", "commit", commit)
        head, _, message = said.partition("\n\n")
        return head.split()[1], message.rstrip()

    async def _push(self, source: Path, commit: str, known: Sequence[str]) -> None:
        """Let the source fetch it, over what was delivered before and over nothing else."""
        git, branch = self.store.git, f"refs/heads/run/{self.store.run}"
        looking = ["-C", str(source), "rev-parse", "--verify", "--quiet", branch]
        _, said = await run(looking, git.directory, ok=(0, 1))
        there = said.decode().strip()
        if there == commit:
            return
        if there and there not in known:
            raise ToolFailed(f"The branch run/{self.store.run} of {source} has moved on.")
        words = ["-C", str(source), "fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
        words += ["--no-write-fetch-head", "--update-shallow", f"file://{git.directory}"]
        await run([*words, f"+{self.store.ref('delivering')}:{branch}"], git.directory)

    async def reviewable(self, start: str) -> str:
        """The tree of the last state without ignored files that the start did not have."""
        git, index = self.store.git, self.store.git.directory / "index-reviewable"
        await git("read-tree", await self.head(), index=index)
        _, ignored = await git("ls-files", "-z", "-c", "-i", "--exclude-standard",
                               folder=self.folder, index=index)  # fmt: skip
        _, known = await git("ls-tree", "-r", "-z", "--name-only", start)
        unwanted = set(ignored.split(b"\0")) - set(known.split(b"\0"))
        await git("update-index", "-z", "--force-remove", "--stdin", folder=self.folder,
                  index=index, stdin=_lines(unwanted))  # fmt: skip
        return await git.text("write-tree", index=index)

    async def _merged(self, state: str, fork: Worktree) -> str:
        return await self._merged_with(state, await fork.head(), fork.folder.name)

    async def _merged_with(self, state: str, theirs: str, name: str) -> str:
        code, said = await self.store.git(
            "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", state, theirs,
            ok=(0, 1),
        )  # fmt: skip
        tree, *conflicts = [part.decode(errors="replace") for part in said.split(b"\0") if part]
        if code:
            raise ToolFailed(f"The branches changed the same places of {', '.join(conflicts)}.")
        return await self.store.keep(tree, [state, theirs], f"merge {name}")

    async def _tree(self) -> str:
        """Add every file to the index by name; git never scans the folder itself."""
        git, index = self.store.git, self._index
        try:
            found = await asyncio.to_thread(_readable, self.folder)
        except TooLarge as error:
            raise GitFailed(f"The workspace cannot be saved: {error}.") from error
        gone = await self._indexed() - found
        for words, names in ((["--force-remove"], gone), (["--add", "--replace"], found)):
            if names:
                await git("update-index", "-z", *words, "--stdin", folder=self.folder, index=index,
                          stdin=_lines(names))  # fmt: skip
        return await git.text("write-tree", index=index)

    async def _indexed(self) -> set[bytes]:
        """Return the files in the index, without submodules, which are not stored."""
        _, listed = await self.store.git("ls-files", "-s", "-z", index=self._index)
        entries = [line.split(b"\t", 1) for line in listed.split(b"\0") if line]
        return {name for facts, name in entries if not facts.startswith(SUBMODULE.encode())}

    async def _show(self, state: str) -> None:
        """Fill the folder with a state, from nothing: what a program left there may be a trap."""
        self.folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(files.empty, self.folder)
        git, index = self.store.git, self._index
        index.unlink(missing_ok=True)
        await git("read-tree", state, index=index)
        # With `-u` the index knows the files as they are now, so the next tree reads none of them.
        await git("checkout-index", "--all", "--force", "--quiet", "-u",
                  folder=self.folder, index=index)  # fmt: skip
        await self.store.git("update-ref", self._head, state)


def folder_name(name: str) -> str:
    """Return a unique folder name that is derived from `name`."""
    if NAME.fullmatch(name) and name != MAIN:
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:12]}".lstrip("-")


def _readable(folder: Path) -> set[bytes]:
    """The files and links of a folder; those that their owner may not read are made readable."""
    found: list[Entry] = []
    for entry in files.walk(folder, depth=DEPTH, skip=HIDDEN):
        if entry.is_file and not entry.mode & 0o400:
            files.allow(folder, entry.path, entry.mode | 0o600)
        if entry.is_file or entry.is_link:
            found.append(entry)
    return {os.fsencode(entry.path) for entry in found}


def _lines(names: set[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in sorted(names) if name)
