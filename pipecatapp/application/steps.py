"""Pin the output of a step as a layer, and show what a step changed in the workspace."""

import asyncio
from typing import Any

from pipecatapp.workflow import Engine, UnknownStep
from pipecatapp.workflow.storage import Reader, facts_of, state_in
from pipecatapp.workflow.syntax import yaml_of

Json = dict[str, Any]


def pinned(engine: Engine, run: str, path: str) -> str:
    """Return the YAML of a layer that replaces the call of a step by its output.

    Raises `UnknownRun`, and `UnknownStep` if it is not a completed call.
    """
    row, read = engine.row(run), engine.ledger.read
    step = read.step(run, path)
    if step is None or step.status != "done" or step.tool is None:
        raise UnknownStep(f"The run {run} has no call at {path!r} that is done.")
    name = f"pin-{step.node}".replace("/", "-").replace("_", "-")
    about = f"Output of {path} of the run {run}."
    said = {f"{step.node}.cache": "pin", f"{step.node}.pinned": read.value(step.output)}
    return yaml_of({"kind": "layer", "id": name, "of": row.workflow, "about": about, "set": said})


async def changes(engine: Engine, run: str, path: str | None = None) -> str:
    """Return the changes of a step, or of the whole run so far, in the run's folder, as a unified
    diff; empty without changes. Raises `UnknownRun`, and `UnknownStep` for a step without a folder.
    """
    engine.row(run)
    seen = await asyncio.to_thread(_states, engine.ledger.read, run, path)
    if not seen or engine.workspaces is None:
        where = "step" if path is None else f"step at {path!r}"
        raise UnknownStep(f"The run {run} has no {where} that saw its workspace.")
    worktree = await engine.workspaces.open(run, None)
    return await worktree.diff(seen[0]["before"], seen[-1]["after"])


def _states(read: Reader, run: str, path: str | None) -> list[Json]:
    """Which states of the folder a step had before and after it, or the whole run had."""
    if path is None:
        return [fact for fact in facts_of(read, run) if not fact["tree"]]
    step = read.step(run, path)
    fact = state_in(read.value(step.facts)) if step is not None else None
    return [] if fact is None else [fact]


def packages_of_unfinished(reader: Reader) -> set[str]:
    """The environments that unfinished runs have from `code.install`."""
    sql = """SELECT output FROM step JOIN run ON run.id = step.run WHERE run.ended IS NULL
        AND step.tool = 'code.install' AND step.output IS NOT NULL"""
    ids = (reader.value(row["output"])["id"] for row in reader.rows(sql))
    return {id for id in ids if id is not None}
