"""The workspaces of all runs, each with a separate git directory."""

import asyncio
import json
import re
import shutil
import subprocess
from functools import cache
from itertools import count
from pathlib import Path
from secrets import token_hex

from pipecatapp.sandbox import tree as files
from pipecatapp.workflow import ToolFailed
from pipecatapp.workspace.git import OLDEST, Git, GitFailed, make, run
from pipecatapp.workspace.uploads import Uploads
from pipecatapp.workspace.worktree import MAIN, NAME, GitWorktree, Store

EMPTY = "an empty workspace"
ASKED = "asked"
"""The file with the source and commit that were requested for a workspace."""
OTHERS = "refs/others"
"""The refs of the states of the runs that were forked."""
FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")


class GitWorkspaces:
    """Keeps each run's folders and states below `root/<run>`.

    A run has its own copy of the one commit that it began with, so that its source may be moved,
    cleaned or deleted meanwhile, and nothing that a program does reaches it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.uploads = Uploads(root.with_name("uploads"))
        """The files that runs were given, next to the workspaces."""
        self._open: dict[str, GitWorktree] = {}
        self._opening = asyncio.Lock()

    async def open(
        self,
        run: str,
        source: Path | None,
        start: str | None = None,
        *,
        origin: str | None = None,
    ) -> GitWorktree:
        """Create the workspace of a run, from `source` (a git repository; None for an empty one) at
        the commit `start`, or return the existing one. With the run `origin` it also has the states
        of that run, and starts from the same state if both have the same source.

        Raises `ToolFailed` if that commit or that repository does not exist.
        """
        if not NAME.fullmatch(run):
            raise ToolFailed(f"{run!r} cannot be the name of a workspace.")
        async with self._opening:
            if run not in self._open:
                check_git()
                if not (self._root / run).is_dir():
                    await self._make(run, source, start, origin)
                self._open[run] = await self._found(run)
            return self._open[run]

    def has(self, run: str) -> bool:
        """Return whether the workspace of a run exists."""
        return NAME.fullmatch(run) is not None and (self._root / run).is_dir()

    @property
    def root(self) -> Path:
        """The folder of all workspaces."""
        return self._root

    async def prune(self, run: str) -> None:
        """Forget a run's workspace and all of its states, and the files that it was given."""
        if not NAME.fullmatch(run):
            raise ToolFailed(f"{run!r} cannot be the name of a workspace.")
        async with self._opening:
            self._open.pop(run, None)
            await asyncio.to_thread(files.remove, self._root / run)
        await self.uploads.release(run)

    async def _make(
        self, run: str, source: Path | None, start: str | None, origin: str | None
    ) -> None:
        """Aside first: what is there under its name is whole."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._root / f".{run}-{token_hex(4)}"
        try:
            store = Store(run, aside, await make(aside / "git"), source)
            asked = json.dumps([source and str(source), start])
            (store.git.directory / ASKED).write_text(asked, encoding="ascii")
            known = await self._taken_over(store, origin, asked)
            first = known or await _begin(store, start)
            names = ("start", f"bases/{MAIN}", f"heads/{MAIN}")
            await store.point(first, *map(store.ref, names))
            await GitWorktree(store, MAIN).reset(first)
            aside.rename(self._root / run)
        finally:
            await asyncio.to_thread(files.remove, aside)

    async def _taken_over(self, store: Store, origin: str | None, asked: str) -> str | None:
        """Fetch the states of another run; its start, if it began with the same."""
        if origin is None or not NAME.fullmatch(origin) or not (self._root / origin).is_dir():
            return None
        there = Git(self._root / origin / "git")
        kept = (f"refs/hearth/{origin}/*:{OTHERS}/{origin}/*", f"{OTHERS}/*:{OTHERS}/*")
        await store.git(*FETCH, "--update-shallow", f"file://{there.directory}", *kept)
        if (there.directory / ASKED).read_text(encoding="ascii") != asked:
            return None
        return await store.git.text("rev-parse", "--verify", f"{OTHERS}/{origin}/start")

    async def _found(self, run: str) -> GitWorktree:
        root = self._root / run
        git = Git(root / "git")
        source, _ = json.loads((git.directory / ASKED).read_text(encoding="ascii"))
        listed = await git.text("for-each-ref", "--format=%(refname)", f"refs/hearth/{run}/")
        numbers = [int(n) for n in re.findall(r"/(\d{6,})$", listed, re.MULTILINE)]
        place = Path(source) if source else None
        store = Store(run, root, git, place, count(max(numbers, default=-1) + 1))
        worktree = GitWorktree(store, MAIN)
        if not worktree.folder.is_dir():
            await worktree.reset(await worktree.head())
        return worktree


async def _begin(store: Store, start: str | None) -> str:
    """The first state: one commit of the source without its past, or nothing at all."""
    git, source = store.git, store.source
    if source is None:
        _, tree = await git("hash-object", "-t", "tree", "-w", "--stdin")
        return await store.keep(tree.decode().strip(), [], EMPTY)
    wanted = f"{start or 'HEAD'}^{{commit}}"
    try:
        _, said = await run(
            ["-C", str(source), "rev-parse", "--verify", "--quiet", "--end-of-options", wanted],
            git.directory,
        )
    except GitFailed as error:
        if not source.is_dir():
            raise ToolFailed(f"There is no repository at {source}.") from error
        raise ToolFailed(f"{source} has no commit {start or 'HEAD'!r}.") from error
    commit = said.decode().strip().splitlines()[-1]
    place = f"file://{source.resolve()}"
    await git(*FETCH, "--depth=1", place, f"{commit}:{store.ref(f'{next(store.numbers):06}')}")
    return commit


def check_git() -> None:
    """Raises `ToolFailed` where git is missing or too old."""
    program = shutil.which("git")
    if program is None:
        raise ToolFailed("git is not installed: run `apt-get install git` as root.")
    version = _version(program)
    if version and tuple(map(int, version.split("."))) < OLDEST:
        raise ToolFailed(f"git is version {version}; workspaces need 2.38 or newer.")


@cache
def _version(program: str) -> str:
    """Return git's version as `2.39`, or an empty string if git prints none."""
    ended = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+", ended.stdout)
    return found[0] if found else ""
