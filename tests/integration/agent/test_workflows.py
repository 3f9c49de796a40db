"""Every shipped workflow: it compiles, it runs, and it does what it says."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from structlog.testing import capture_logs

from hearth.openai_api.chat import ChatRequest
from pipecatapp.application.documents.files import SHIPPED, Library
from tests.integration.agent.conftest import House

EVERY_WORKFLOW = sorted(path.stem for path in (SHIPPED / "workflows").glob("*.yaml"))


def user_text(body: dict[str, Any]) -> str:
    return str([m["content"] for m in body["messages"] if m["role"] == "user"][-1])


def test_ids_of_shipped_documents_are_the_names_of_their_files() -> None:
    """Whoever looks for the workflow of a run finds its file."""
    assert sorted(Library.shipped().workflows) == EVERY_WORKFLOW


def test_every_shipped_workflow_compiles(house: House) -> None:
    """The agent does not compile them at its start, so nothing else would tell."""
    with house.client() as client:
        for name in EVERY_WORKFLOW:
            planned = client.post("/api/plan", json={"workflow": name}).json()
            assert planned["diagnostics"] == [], name


SENDS = """
id: sends
about: Use a tool that does not exist.
outputs: {sent: "{{ steps.send.sent }}"}
steps:
  - id: send
    use: pigeon.send
"""


def test_workflow_of_a_person_that_cannot_run_is_logged_at_the_start(empty_house: House) -> None:
    """The tool of yesterday may be gone; a schedule would fail at night."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "sends.yaml").write_text(SENDS)

    with capture_logs() as logs, empty_house.running():
        pass

    [found] = [line for line in logs if line["event"] == "workflow_invalid"]
    assert found["workflow"] == "sends"
    assert "pigeon.send" in found["reason"]


ELSEWHERE = {"answer-from-documents"}
"""Asks no model where there are no documents; its tests are in the folder `knowledge`."""
CHATS = [
    name
    for name, one in Library.shipped().workflows.items()
    if "chat" in one.tags and name not in ELSEWHERE
]
"""The others work on a repository and have tests in the folder `code`."""


@pytest.mark.parametrize("name", sorted(CHATS))
def test_shipped_workflow_answers_as_a_model_and_starts_by_its_text(
    house: House, name: str
) -> None:
    """A shipped document that does not run would be the first that a person tries."""
    answer = house.ask("What is snow?", model=f"workflow/{name}")
    with house.client() as client:
        planned = client.post("/api/plan", json={"workflow": name}).json()
        body = {"workflow": name, "inputs": {"text": "What is snow?"}}
        started = client.post("/api/runs", json=body)

    assert (planned["diagnostics"], started.status_code) == ([], 201)
    assert answer.status_code == 200, answer.text
    assert "What is snow?" in answer.json()["choices"][0]["message"]["content"]


def test_summarize_gives_the_text_as_data_and_its_length_as_a_wish(house: House) -> None:
    """A text that says 'ignore this and …' must be read, not obeyed."""
    with house.client() as client:
        body = {"workflow": "summarize", "inputs": {"text": "Snow fell.", "sentences": 2}}
        client.post("/api/runs", json=body)
        house.model.wait_until(lambda model: model.answered == 1)

    asked = house.model.requests[0].body
    assert "in 2 sentences" in user_text(asked)
    assert "<text>\nSnow fell.\n</text>" in user_text(asked)
    assert asked["messages"][0]["content"].startswith("Summarise what you are given.")


def test_two_drafts_are_written_at_the_same_time_and_joined(house: House) -> None:
    """Two experts work while one person waits once; each draft reaches the third call."""

    def draft(temperature: float) -> Any:
        def fits(request: ChatRequest) -> bool:
            return request.temperature == temperature

        return fits

    held = threading.Event()
    house.model.when(draft(0.2)).say("A careful answer.", held=held)
    house.model.when(draft(1.0)).say("A bold answer.", held=held)
    house.model.when("<question>").say("The best of both.")

    with ThreadPoolExecutor(1) as callers:
        asked = callers.submit(house.ask, "What is snow?", model="workflow/two-drafts", stream=True)
        try:
            # Neither is answered before both are asked.
            house.model.wait_until(lambda model: model.running == 2)
        finally:
            held.set()
        answer = asked.result()

    _, _, third = house.model.requests
    joined = user_text(third.body)
    assert "A careful answer." in joined
    assert "A bold answer." in joined
    assert "careful" not in answer.text
    assert "The " in answer.text
