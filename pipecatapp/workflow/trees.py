"""The folders of one run: created when a call first uses one, with one writer at a time.

The ledger records the state of each: that after the last successful call. Other changes in a
folder, from a failed or interrupted call, are undone before another call uses it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.running.failing import holds
from pipecatapp.workflow.tool import Facts, Json, Tool, ToolFailed
from pipecatapp.workflow.tool_names import matches
from pipecatapp.workflow.workspace import Workspaces, Worktree

FACT = "workspace"
"""Where a step keeps which folder it saw (empty for the run's own, else the fork's path), and its
state before and after.
"""


@dataclass
class Tree:
    """One folder, and its state."""

    name: str
    worktree: Worktree
    state: str
    clean: bool
    """Whether the folder has this state."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    holder: str | None = None
    """The call that may use it; calls inside this call share its turn."""

    def __post_init__(self) -> None:
        self.began, self._tidying = self.state, asyncio.Lock()

    async def tidy(self) -> None:
        """Wind back what is in the folder and in no state."""
        async with self._tidying:
            if not self.clean:
                await self.worktree.reset(self.state)
                self.clean = True

    async def keep(self, about: str) -> None:
        """Store the current content of the folder as its state."""
        self.state = await self.worktree.commit(about)
        self.clean = True

    def show(self, state: str) -> None:
        """Another state, from the next call on."""
        self.state, self.clean = state, False

    async def has(self, fact: Json | None) -> bool:
        """Whether the state that a call left elsewhere is here; then it is this folder's."""
        if fact is None or fact["after"] == self.state:
            return True
        if await self.worktree.content(fact["after"]) is None:
            return False
        self.show(fact["after"])
        return True

    def fact(self, before: str) -> Json:
        """Return the record of the folder for a step."""
        return {"tree": self.name, "before": before, "after": self.state}


@dataclass(frozen=True)
class Source:
    """The initial content of a run's folder."""

    repo: str | None = None
    commit: str | None = None
    origin: str | None = None
    """The run that it is a fork of."""

    @property
    def place(self) -> Path | None:
        """The repository; raises `ToolFailed` if the path is not absolute or ambiguous."""
        if not self.repo:
            return None
        place = Path(self.repo).expanduser()
        if not place.is_absolute():
            raise ToolFailed(f"workspace.repo must be an absolute path, not {self.repo!r}.")
        return place


class Trees:
    """The run's own folder and its forks."""

    def __init__(
        self, workspaces: Workspaces | None, reader: Reader, run: str, source: Source
    ) -> None:
        self._workspaces, self._reader = workspaces, reader
        self._run, self._source = run, source
        self._open: dict[str, Tree] = {}
        self._forks: dict[str, str | None] = {}
        self._opening = asyncio.Lock()
        self._past: dict[str, str] | None = None

    def sees(self, tool: Tool, given: Json, tools: Mapping[str, Tool]) -> bool:
        """Return whether a call uses a folder, itself or through its tools."""
        if self._workspaces is None:
            return False
        named = given.get("tools") if tool.name == "agent" else None
        inner = (one for one in tools.values() if one.workspace)
        return tool.workspace or any(_means(name, one) for one in inner for name in named or ())

    def fork(self, path: str) -> None:
        """Use a separate folder for everything inside `path`."""
        if path not in self._forks:
            above = self._open.get(self._name_of(path))
            self._forks[path] = above.state if above else None

    def is_used(self, fork: str) -> bool:
        """Whether a call has seen the folder of a fork, before a restart included."""
        return self._workspaces is not None and (fork in self._open or fork in self._known())

    @asynccontextmanager
    async def turn(self, path: str) -> AsyncIterator[Tree]:
        """The folder of an instance, for it alone."""
        async with self._turn(self._name_of(path), path) as tree:
            yield tree

    @asynccontextmanager
    async def _turn(self, name: str, path: str) -> AsyncIterator[Tree]:
        tree = await self._tree(name)
        if tree.holder is not None and holds(tree.holder, path):
            yield tree
            return
        async with tree.turn:
            tree.holder = path
            try:
                yield tree
            finally:
                tree.holder = None

    @asynccontextmanager
    async def seen(self, tool: Tool, path: str, facts: Facts) -> AsyncIterator[Worktree]:
        """Yield the folder for a call; its changes are stored if the call succeeds."""
        async with self.turn(path) as tree:
            await tree.tidy()
            before, changes = tree.state, tool.effect in ("workspace", "exec")
            tree.clean = not changes
            yield tree.worktree
            if changes:
                await tree.keep(path)
            facts.more[FACT] = tree.fact(before)

    async def merge(self, fork: str) -> Json:
        """Merge a fork into its original folder; returns the record for the step."""
        async with (
            self._turn(self._above(fork), fork) as tree,
            self._turn(fork, fork) as other,
        ):
            before = tree.state
            await tree.tidy()
            await other.tidy()
            tree.clean = False
            tree.state = await tree.worktree.merge([other.worktree])
            tree.clean = True
            del self._open[fork]
            return tree.fact(before)

    def _name_of(self, path: str) -> str:
        return max((fork for fork in self._forks if holds(fork, path)), key=len, default="")

    def _above(self, fork: str) -> str:
        outer = (other for other in self._forks if other != fork and holds(other, fork))
        return max(outer, key=len, default="")

    async def _tree(self, name: str) -> Tree:
        async with self._opening:
            return await self._opened(name)

    async def _opened(self, name: str) -> Tree:
        if name in self._open:
            return self._open[name]
        if self._workspaces is None:
            raise ToolFailed("This engine has no workspaces.")
        if name:
            above = await self._opened(self._above(name))
            start = self._forks[name] or above.began
            worktree = await above.worktree.fork(name, start)
        else:
            source = self._source
            worktree = await self._workspaces.open(
                self._run, source.place, source.commit, origin=source.origin
            )
        state = self._known().get(name) or await worktree.base()
        tree = self._open[name] = Tree(name, worktree, state, clean=False)
        return tree

    def _known(self) -> dict[str, str]:
        """The state of each folder by the ledger, as it was when this process began."""
        if self._past is None:
            facts = list(facts_of(self._reader, self._run))
            self._past = {fact["tree"]: fact["after"] for fact in facts}
        return self._past


def _means(name: str, tool: Tool) -> bool:
    """Whether a name among an agent's tools is that tool's, or `file.*` of its kind."""
    return matches(name, tool.name)


def facts_of(reader: Reader, run: str) -> Iterator[Json]:
    """Yield the folder records of the steps of a run, in the order in which they ended."""
    sql = """SELECT step.facts FROM step JOIN event ON event.run = step.run
        AND event.path = step.path AND event.type = 'node.done'
        WHERE step.run = ? AND step.status = 'done' AND step.facts IS NOT NULL ORDER BY event.seq"""
    for row in reader.rows(sql, (run,)):
        if fact := state_in(reader.value(row["facts"])):
            yield fact


def state_in(facts: Any) -> Json | None:
    """Return the folder record of a step."""
    found: Json | None = facts.get(FACT) if isinstance(facts, dict) else None
    return found
