"""A workflow whose answer depends on its prompt, and enough cases for a gate."""

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest

from hearth.openai_api.chat import ChatRequest
from pipecatapp.client import Client
from prompt_engineering.cases import Case, Check, case_file
from prompt_engineering.opening import Options
from prompt_engineering.splits import Split, split_of
from tests.integration.agent.conftest import House

WORKFLOW = """kind: workflow
id: classify
inputs: {text: text}
steps:
  - id: reply
    use: llm
    model: default
    prompt: [classify]
    with: {text: "{{ inputs.text }}"}
outputs:
  text: "{{ reply.text }}"
"""
PROMPT = "Decide whether the fruit is sweet.\nAnswer in full sentences.\nBe fast."
DOCUMENT = f"---\ntags: [classify]\n---\n{PROMPT}\n"
COUNTS: Mapping[Split, int] = {"learn": 6, "select": 5, "gate": 40}
SEED = 26
"""With it the first new candidate drops the harmful line."""
WORDS = 12
"""Words of the request of each case: enough for a copy to be noticed."""


def system_of(request: ChatRequest) -> str:
    """The system message of a request; empty without one."""
    first = request.messages[0]
    return str(first.content) if first.role == "system" else ""


def request_text(number: int) -> str:
    """The request of a case: words that no other text has."""
    return " ".join(f"fruit{number}word{place}" for place in range(WORDS))


def fruit_cases(
    counts: Mapping[Split, int] = COUNTS,
    workflow: str = "classify",
    check: Check = Check(equals="sweet"),  # noqa: B008 (it is frozen)
) -> list[Case]:
    """Cases that pass when the model answers with the word `sweet` alone, so many of each split."""
    left, found = dict(counts), list[Case]()
    for number in itertools.count():
        if not any(left.values()):
            return found
        split = split_of(id := f"fruit-{number}")
        if left[split]:
            left[split] -= 1
            inputs = {"text": request_text(number)}
            found.append(Case(id=id, workflow=workflow, inputs=inputs, checks=(check,)))
    raise AssertionError("not reached")


def write_classify(house: House) -> None:
    """Write the workflow, its prompt and its cases."""
    for name, text in (
        ("workflows/classify.yaml", WORKFLOW),
        ("prompts/classify.md", DOCUMENT),
        ("evolution/cases/fruits.yaml", case_file(fruit_cases())),
    ):
        (house.state / name).parent.mkdir(parents=True, exist_ok=True)
        (house.state / name).write_text(text, encoding="utf-8")


@pytest.fixture
def held() -> Event:
    """The model answers only after this event, which is set unless a test clears it."""
    event = Event()
    event.set()
    return event


@pytest.fixture
def classify_house(empty_house: House, held: Event) -> House:
    """An instance with the workflow, its prompt and cases, not started. Its model answers in
    one word unless the prompt asks for sentences."""
    write_classify(empty_house)
    model = empty_house.model
    sentences = model.when(lambda request: "full sentences" in system_of(request))
    sentences.say("It is sweet.", held=held)
    model.when(lambda request: "fruit is" in system_of(request)).say("sweet")
    return empty_house


@pytest.fixture
def started(classify_house: House) -> Iterator[House]:
    """The same with the agent service in this process."""
    with classify_house.running():
        yield classify_house


@asynccontextmanager
async def client_of(house: House) -> AsyncIterator[Client]:
    """The client of a running instance."""
    async with httpx2.AsyncClient(
        base_url=house.address,
        headers={"authorization": f"Bearer {house.key}"},
        timeout=60,
        trust_env=False,
    ) as http:
        yield Client(http, house.address, here=False)


def options_of(house: House, **more: object) -> Options:
    """A small campaign on the state directory of a house."""
    fields: dict[str, Any] = {"candidates": 3, "seed": SEED, "state_dir": house.state, **more}
    return Options(prompt="classify", **fields)


def archive_folder(house: House, campaign: str = "classify-001") -> Path:
    """The folder of a campaign."""
    return house.state / "evolution" / "campaigns" / campaign
