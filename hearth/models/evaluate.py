"""Let the running instance measure what a model can do."""

import time
from typing import Any, Final

import httpx2

from hearth.models.errors import EvaluationFailed, NoInstance
from hearth.models.evaluation import Evaluation
from hearth.service.settings import read_key
from hearth.service.state import StateDir, read_instance

WORKFLOW: Final = "evaluate-model"
ASK_SECONDS: Final = 30.0
EVERY_SECONDS: Final = 0.5


def evaluate(
    state: StateDir, model: str, seconds: float
) -> tuple[Evaluation, list[dict[str, Any]]]:
    """Start the workflow `evaluate-model` and wait for its end.

    Returns the measurements, which the instance stores, and each task with the reason why it was
    not done. Raises `NoInstance` and `EvaluationFailed`.
    """
    instance = read_instance(state)
    if instance is None:
        raise NoInstance
    headers = {"authorization": f"Bearer {read_key(instance.key_file)}"}
    body = {"workflow": WORKFLOW, "inputs": {"model": model, "seconds": seconds}}
    try:
        with httpx2.Client(
            base_url=instance.web, headers=headers, timeout=ASK_SECONDS, trust_env=False
        ) as http:
            answer = http.post("/api/runs", json=body | {"interactive": False})
            if answer.is_error:
                raise EvaluationFailed(_message(answer))
            view = _ended(http, answer.json()["run"])
    except httpx2.HTTPError as error:
        raise EvaluationFailed(f"The instance does not answer: {error}.") from error
    if view["status"] != "done":
        raise EvaluationFailed(
            f"The model could not be evaluated: {view['error'] or view['status']}",
            f"See `hearth runs show {view['id']}`.",
        )
    outputs = view["outputs"]
    return Evaluation.model_validate(outputs["evaluation"]), outputs["tasks"]


def _ended(http: httpx2.Client, run: str) -> dict[str, Any]:
    """Wait for the end of a run, which the workflow bounds."""
    while True:
        answer = http.get(f"/api/runs/{run}")
        answer.raise_for_status()
        view: dict[str, Any] = answer.json()
        if view["status"] in ("done", "failed", "cancelled"):
            return view
        time.sleep(EVERY_SECONDS)


def _message(answer: httpx2.Response) -> str:
    """The message of an error answer."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The instance answers with the status {answer.status_code}."
