"""Measure the abilities of a model with the running instance."""

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
    """Run the workflow `evaluate-model` and wait for its end.

    Args:
        state: The state directory of the running instance.
        model: A model or an expert.
        seconds: Time for all tasks.

    Returns:
        The measurements, which the instance also stores, and a row for each task; that of a failed
        task has the reason.

    Raises:
        NoInstance: Hearth is not running.
        EvaluationFailed: The run failed, or the instance does not answer.
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
            response = http.post("/api/runs", json=body | {"interactive": False})
            if response.is_error:
                raise EvaluationFailed(_message(response))
            view = _wait_for_end(http, response.json()["run"])
    except httpx2.HTTPError as error:
        raise EvaluationFailed(f"The instance does not answer: {error}.") from error
    if view["status"] != "done":
        raise EvaluationFailed(
            f"The model could not be evaluated: {view['error'] or view['status']}",
            f"See `hearth runs show {view['id']}`.",
        )
    outputs = view["outputs"]
    return Evaluation.model_validate(outputs["evaluation"]), outputs["tasks"]


def _wait_for_end(http: httpx2.Client, run: str) -> dict[str, Any]:
    """Wait for the end of a run, which has a time limit, and return it."""
    while True:
        response = http.get(f"/api/runs/{run}")
        response.raise_for_status()
        view: dict[str, Any] = response.json()
        if view["status"] in ("done", "failed", "cancelled"):
            return view
        time.sleep(EVERY_SECONDS)


def _message(response: httpx2.Response) -> str:
    """Return the message of an error response."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The instance responds with HTTP {response.status_code}."
