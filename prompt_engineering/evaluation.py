"""Measure a prompt on a case: a real run through the client, judged by the checks of the case."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pipecatapp.client import CLIENT
from prompt_engineering.archive import CaseScore
from prompt_engineering.cases import MOST_SHOWN, Case
from prompt_engineering.genome import Genome

CALLER: Final = "evolution"
"""Caller of measured runs in the ledger: they are no failures of the home."""
EFFECTS: Final = ("pure", "read", "llm")
"""Effects that a measured run may have: it changes nothing, however often it is repeated."""

Json = dict[str, Any]


class AppClient(Protocol):
    """What is used of `pipecatapp.client.Client`."""

    async def request(
        self, method: str, path: str, body: Json | None = None, **options: Any
    ) -> Any: ...

    def events(self, run: str, *, after: int = 0) -> Any: ...


@dataclass(frozen=True)
class Outcome:
    """How one run of a case ended. `message` is empty when it passed."""

    run: str
    passed: bool
    tokens: int
    message: str
    output: str
    model: str = ""

    def added_to(self, score: CaseScore | None) -> CaseScore:
        """Return the score of the case with this run."""
        before = score or CaseScore()
        return CaseScore(
            passes=before.passes + self.passed,
            runs=before.runs + 1,
            tokens=before.tokens + self.tokens,
            run_ids=(*before.run_ids, self.run),
            message=self.message or before.message,
            output=self.output if self.message else before.output,
        )


class Evaluator(Protocol):
    """Measures a prompt on a case."""

    async def evaluate(self, case: Case, genome: Genome) -> Outcome: ...


class RunEvaluator:
    """Evaluates by runs of the application, with the prompt replaced for this run only."""

    def __init__(self, client: AppClient) -> None:
        self._client = client

    async def evaluate(self, case: Case, genome: Genome) -> Outcome:
        """Run the case. Raises `RequestFailed` for a workflow or inputs that are not valid."""
        body = {
            "workflow": case.workflow,
            "inputs": case.inputs,
            "prompts": {genome.prompt: genome.document},
            "allow": EFFECTS,
            "restrict": True,
            "interactive": False,
        }
        run = await run_to_end(self._client, body)
        tokens, models = tokens_of(run), [step["model"] for step in run["steps"] if step["model"]]
        if run["status"] != "done":
            failures = [f"The run ended as {run['status']}: {run['error']}"]
        else:
            failures = case.failures(run["outputs"] or {})
        return Outcome(
            run=run["id"],
            passed=not failures,
            tokens=tokens,
            message=" ".join(failures)[: 3 * MOST_SHOWN],
            output=output_text(run["outputs"] or {})[: 3 * MOST_SHOWN],
            model=models[-1] if models else "",
        )


async def run_to_end(client: AppClient, body: Json) -> Json:
    """Start a run, wait for its end, and return it. Raises `RequestFailed`."""
    started = await client.request("POST", "/api/runs", body, headers={CLIENT: CALLER})
    run = started["run"]
    async for _ in client.events(run):
        pass
    ended: Json = await client.request("GET", f"/api/runs/{run}")
    return ended


def tokens_of(run: Mapping[str, Any]) -> int:
    """Return the tokens that the models of a run read and wrote."""
    return int(run["tokens"]["prompt"] + run["tokens"]["completion"])


def output_text(outputs: Mapping[str, Any]) -> str:
    """Return the output `text`, or all outputs as JSON."""
    text = outputs.get("text")
    return text if isinstance(text, str) else json.dumps(outputs, ensure_ascii=False)
