"""Mutation by a model, which sees failed runs of `learn` and two prompts of the pool."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from prompt_engineering.archive import Candidate, CaseScore
from prompt_engineering.cases import Case
from prompt_engineering.evaluation import AppClient, run_to_end, tokens_of
from prompt_engineering.genome import operations_between
from prompt_engineering.mechanical import Mutation

MOST_FAILURES: Final = 3
LEARN_CASES: Final = 6
"""Cases of `learn` that a parent is run on, to find failed runs."""
LONGEST_TEXT: Final = 1500
"""Characters of an input or output that the model sees."""

WORKFLOW: Final = """kind: workflow
id: improve-prompt
about: Ask a model for a better version of a prompt.
inputs:
  instructions: text
  model: text
steps:
  - id: answer
    use: llm.json
    model: "{{ inputs.model }}"
    with:
      text: "{{ inputs.instructions }}"
      returns: {rationale: text, prompt: text}
outputs:
  rationale: {type: text, value: "{{ answer.value.rationale }}"}
  prompt: {type: text, value: "{{ answer.value.prompt }}"}
"""
INSTRUCTIONS: Final = (
    "Improve the system prompt below. Runs with it failed as shown. Find what the failures have in"
    " common, and change the prompt so that such requests succeed. Do not copy the requests or"
    " their answers into the prompt. Keep template fields such as {name}. Give the whole"
    " new prompt, and in one sentence the reason for the change."
)


class ModelMutator:
    """Asks a model of the application; the request is a run like any other."""

    def __init__(self, client: AppClient, model: str) -> None:
        self._client, self._model = client, model

    async def mutate(
        self, parent: Candidate, other: Candidate | None, learn: Mapping[str, Case]
    ) -> Mutation:
        """Return a change of the parent; without operations when the run failed or changed nothing.

        Raises `RequestFailed` when the application refuses the run.
        """
        request = request_text(parent, other, learn)
        inputs = {"instructions": request, "model": self._model}
        body: dict[str, Any] = {"document": WORKFLOW, "inputs": inputs, "interactive": False}
        run = await run_to_end(self._client, body)
        outputs = run["outputs"] or {}
        text = str(outputs.get("prompt", "")).strip()
        operations = operations_between(parent.genome.text, text) if text else []
        models = [step["model"] for step in run["steps"] if step["model"]]
        return Mutation(
            origin="model",
            operations=tuple(operations),
            rationale=str(outputs.get("rationale") or run["error"] or ""),
            tokens=tokens_of(run),
            model=models[-1] if models else "",
        )


def request_text(parent: Candidate, other: Candidate | None, learn: Mapping[str, Case]) -> str:
    """Return what the model reads: the prompt, failed runs of `learn`, and another prompt."""
    failed = [(learn[id], score) for id, score in parent.learn.items() if score.message]
    parts = [INSTRUCTIONS, f"The prompt:\n{parent.genome.text}"]
    parts += [_failure(case, score) for case, score in failed[:MOST_FAILURES]]
    if other is not None and other.id != parent.id:
        rate = f"passed {other.passes} of {other.runs} other runs"
        parts.append(f"Another prompt, which {rate}:\n{other.genome.text}")
    return "\n\n".join(parts)


def _failure(case: Case, score: CaseScore) -> str:
    asked = str(case.inputs.get("text", case.inputs))[:LONGEST_TEXT]
    return (
        f"A failed run.\nRequest: {asked}\nAnswer: {score.output[:LONGEST_TEXT]}\n"
        f"Problem: {score.message}"
    )


def unseen(parent: Candidate, learn: Sequence[Case]) -> list[Case]:
    """Return the cases of `learn` that the parent has to be run on before it is mutated."""
    return [case for case in learn[:LEARN_CASES] if case.id not in parent.learn]
