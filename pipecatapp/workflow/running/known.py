"""Cached outputs: results that need no call, because an equal call was made before.

A key contains everything that determines an output. A step is stale if its key is missing, so
nothing needs invalidation. If a changed step gives the same output, later steps stay cached.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipecatapp.workflow.ledger.reading import Reader, StepRow
from pipecatapp.workflow.ledger.values import Statement, canonical
from pipecatapp.workflow.plan import PlanNode
from pipecatapp.workflow.running.failing import holds
from pipecatapp.workflow.tool import EFFECTS, Effect, InputRefused, Json, Tool, Where
from pipecatapp.workflow.trees import state_in

CACHED: frozenset[str] = frozenset({"pure", "llm"})
"""Effects whose outputs other runs may reuse; a fork reuses results of its origin for any
effect."""


REUSED: frozenset[str] = CACHED | {"read", "workspace", "exec"}
"""Effects whose outputs a later plan of the same node may use."""


@dataclass(frozen=True)
class Key:
    """The inputs of an output: the hash of each part by its name."""

    parts: Mapping[str, str]
    shared: bool
    """Whether another run may use the output, or only a fork of this run."""

    @property
    def text(self) -> str:
        """The form that is stored with the step."""
        return canonical(self.parts)

    @property
    def digest(self) -> str:
        """The form that is looked up."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Found:
    """A cached output, and its origin."""

    column: str
    run: str
    path: str
    fact: Json | None = None
    """The state of the run's folder after the call, if it used the folder."""


@dataclass(frozen=True)
class Place:
    """The position of a call, and the receiver of its text."""

    path: str
    node: str
    say: Callable[[str], None]
    timeout: float | None = None
    retries: int = 0
    wait: float = 0.0
    key: Key | None = None
    grants: frozenset[Effect] = EFFECTS
    """The effects that it may have."""
    where: Where = "local"
    project: Json | None = None


class Known:
    """Cached results for one run: from its origin if it is a fork, and from the cache.

    `rerun` is the node from which a fork repeats everything.
    """

    def __init__(
        self,
        reader: Reader,
        run: str,
        family: str,
        *,
        origin: str | None = None,
        rerun: str | None = None,
    ) -> None:
        self._reader, self._run, self._family = reader, run, family
        self._origin, self._rerun = origin, rerun
        steps: Iterable[StepRow] = reader.steps(origin) if origin else ()
        self._before = {step.path: step for step in steps if step.key is not None}
        self._plans: dict[str, str] = {}

    def share(self, plan: str, node: str) -> None:
        """Let the steps of a plan at the path `plan`, which `node` runs, take the outputs of the
        same steps of earlier plans of that node.
        """
        self._plans[plan] = node

    def _place(self, path: str) -> str:
        """Return the position of a call; inside a plan, without the visits of loops around the
        plan."""
        plan = max((one for one in self._plans if holds(one, path)), key=len, default=None)
        return path if plan is None else self._plans[plan] + path.removeprefix(plan)

    def key(
        self, tool: Tool, node: PlanNode, path: str, given: Json, content: str | None = None
    ) -> Key | None:
        """The key of a call, which sees a folder with that content; None for one whose input is
        wrong, or that sees more.
        """
        if node.cache == "never" or (tool.workspace and content is None):
            return None
        try:
            accepted = tool.accept(given).model_dump(mode="json")
        except InputRefused:
            return None
        parts = {f"input {name}": _hash(value) for name, value in accepted.items()}
        parts["tool"] = f"{tool.name} {tool.version}"
        if node.returns is not None:
            parts["returns"] = _hash(node.returns)
        if tool.effect == "llm" and (tool.name == "agent" or given.get("temperature") != 0):
            parts |= {"path": self._place(path), "family": self._family}
        if content is not None:
            parts["workspace"] = content
        return Key(parts, shared=tool.effect in CACHED and content is None)

    def find(self, key: Key | None, path: str) -> Found | None:
        """The output of the same call made before."""
        if key is None or (self._rerun is not None and holds(self._rerun, path)):
            return None
        before = self._before.get(path)
        if before is not None and before.status == "done" and before.key == key.text:
            fact = state_in(self._reader.value(before.facts))
            return Found(before.output or "null", str(self._origin), path, fact)
        if any(holds(plan, path) for plan in self._plans):
            found_here = self._earlier(key, path)
            if found_here is not None:
                return found_here
        if not key.shared:
            return None
        sql = """SELECT cache.run, cache.path, step.output FROM cache
            JOIN step ON step.run = cache.run AND step.path = cache.path
            WHERE cache.key = ? AND step.status = 'done'"""
        found = self._reader.rows(sql, (key.digest,))
        return Found(found[0]["output"], found[0]["run"], found[0]["path"]) if found else None

    def _earlier(self, key: Key, path: str) -> Found | None:
        """The output of the same call in this run, of an effect that may be had again."""
        sql = """SELECT path, output, effect, facts FROM step
            WHERE run = ? AND key = ? AND path != ? AND status = 'done' ORDER BY started"""
        for row in self._reader.rows(sql, (self._run, key.text, path)):
            if row["effect"] in REUSED:
                fact = state_in(self._reader.value(row["facts"]))
                return Found(row["output"] or "null", self._run, row["path"], fact)
        return None

    def why(self, key: Key | None, path: str) -> str:
        """Why a fork makes this call again; empty where nothing was before."""
        if self._origin is None:
            return ""
        if self._rerun is not None and holds(self._rerun, path):
            return f"run again from {self._rerun}"
        if (before := self._before.get(path)) is None:
            return f"the run {self._origin} has no such step"
        if key is None:
            return "its result is never reused"
        old: Mapping[str, str] = self._reader.value(before.key)
        names = sorted({*old, *key.parts})
        changed = [name for name in names if old.get(name) != key.parts.get(name)]
        return f"changed: {', '.join(changed)}" if changed else f"it was {before.status}"

    def keeping(self, key: Key | None, path: str, at: str) -> list[Statement]:
        """Makes the output of a call that has ended well known to other runs."""
        if key is None or not key.shared:
            return []
        insert = """INSERT OR REPLACE INTO cache (key, family, output, run, path, at)
            VALUES (?, ?, '', ?, ?, ?)"""
        return [(insert, (key.digest, self._family, self._run, path, at))]


def _hash(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
