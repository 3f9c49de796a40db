"""What became of a step: a layer that pins its output, and what it changed in the folder."""

from pipecatapp.workflow import Engine, UnknownStep
from pipecatapp.workflow.layers.composing import yaml_of
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.trees import facts_of, state_in


def pinned(engine: Engine, run: str, path: str) -> str:
    """The YAML of a layer in which the output of a step stands instead of its call.

    Raises `UnknownRun`, and `UnknownStep` for what is no call that is done.
    """
    view = engine.run(run)
    step = next((step for step in view.steps if step.path == path), None)
    if step is None or step.status != "done" or step.tool is None:
        raise UnknownStep(f"The run {run} has no call at {path!r} that is done.")
    name = f"pin-{step.node}".replace("/", "-").replace("_", "-")
    about = f"What {path} of the run {run} gave."
    said = {f"{step.node}.cache": "pin", f"{step.node}.pinned": step.output}
    return yaml_of({"kind": "layer", "id": name, "of": view.workflow, "about": about, "set": said})


async def changes(engine: Engine, run: str, path: str | None = None) -> str:
    """What a step, or the whole run so far, changed in the run's folder, as a unified diff; empty
    when it changed nothing. Raises `UnknownRun`, and `UnknownStep` for one that saw no folder.
    """
    steps, own = engine.run(run).steps, facts_of(engine.ledger.read, run)
    of_step = (state_in(step.facts) for step in steps if step.path == path)
    seen = [fact for fact in own if not fact["tree"]] if path is None else [*filter(None, of_step)]
    if not seen or engine.workspaces is None:
        where = "step" if path is None else f"step at {path!r}"
        raise UnknownStep(f"The run {run} has no {where} that saw its workspace.")
    worktree = await engine.workspaces.open(run, None)
    return await worktree.diff(seen[0]["before"], seen[-1]["after"])


def packages_of_unfinished(reader: Reader) -> set[str]:
    """The environments that unfinished runs have from `code.install`."""
    sql = """SELECT output FROM step JOIN run ON run.id = step.run WHERE run.ended IS NULL
        AND step.tool = 'code.install' AND step.output IS NOT NULL"""
    return {reader.value(row["output"])["id"] for row in reader.rows(sql)}
