"""Workflows that runs write: checked as those of people, and started as runs of their own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pipecatapp.application.preview.bounds import bound_text, bounds
from pipecatapp.application.preview.plan import plan_text
from pipecatapp.application.runs import Document, RunService
from pipecatapp.tools.autonomy.authoring import Examined
from pipecatapp.workflow import Effect, InvalidDocument, NotGranted, granting
from pipecatapp.workflow.storage import Statement, now

PARENT = "parent"
"""The kind of the entry of a run that names the run and step it was started by."""


class AuthoringService:
    """The `Authoring` of one instance."""

    def __init__(self, runs: RunService) -> None:
        self._runs = runs

    async def examine(self, document: str, allow: Collection[Effect]) -> Examined:
        """A document as it would run with these effects; a wrong one is told, not raised."""
        engine = self._runs.engine
        try:
            workflow = self._runs.workflow(Document(document=document, file="authored.yaml"))
            plan = engine.plan(workflow)
            granting(plan, allow)
        except InvalidDocument as error:
            return Examined([str(one) for one in error.diagnostics])
        except NotGranted as error:
            return Examined([str(error)])
        worst = bounds(plan)
        return Examined(
            diagnostics=[],
            plan=plan_text(plan),
            nodes=[node.model_dump(exclude_defaults=True) for node in plan.graph().nodes],
            tools=[tool.name for tool in plan.tools_within_reach(engine.tools)],
            effects=sorted(plan.effects()),
            steps=bound_text(worst.steps),
            models=bound_text(worst.models),
        )

    async def start_child(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        *,
        parent: str,
        path: str,
        beside: Callable[[str], Sequence[Statement]],
    ) -> str:
        """Start a run for a step of another run and return its id; the same step starts one."""
        ledger = self._runs.engine.ledger
        sql = "SELECT run FROM inbox WHERE kind = ? AND body = ? AND path = ?"
        if known := ledger.read.rows(sql, (PARENT, parent, path)):
            return str(known[0]["run"])
        insert = "INSERT INTO inbox (id, run, path, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)"

        def written(run: str) -> list[Statement]:
            entry = (ledger.names.new(), run, path, now(), PARENT, parent)
            return [(insert, entry), *beside(run)]

        interactive = bool(self._runs.engine.row(parent).interactive)
        return await self._runs.start(
            Document(workflow=workflow),
            dict(inputs),
            caller="autonomy",
            interactive=interactive,
            beside=written,
        )
