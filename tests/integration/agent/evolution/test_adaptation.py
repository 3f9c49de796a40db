"""Self-adaptation: from a failed run of the real agent to a prompt that a person makes live."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from prompt_engineering.adaptation import adapt, read_adaptation
from prompt_engineering.campaign import CampaignError
from prompt_engineering.cases import Check, case_file, read_cases
from prompt_engineering.diagnosis import Facts, by_rules, reflect
from prompt_engineering.failures import Failure, failure_of, recent_failures
from prompt_engineering.opening import Options
from prompt_engineering.watching import handle_failures
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import client_of, fruit_cases, system_of

LONGEST = 160
"""Characters of a system message that the model takes: the shipped prompt has more."""
OVERFLOW = "The request exceeds the available context size of 64 tokens."


@pytest.fixture
def small_model(house: House) -> House:
    """The real agent with a model whose context is too small for the shipped prompt."""
    cases = fruit_cases({"learn": 1, "select": 3, "gate": 40}, "agent-turn", Check(contains="word"))
    folder = house.state / "evolution" / "cases"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(case_file(cases), encoding="utf-8")
    model = house.model
    model.when(lambda request: len(instructions(system_of(request))) > LONGEST).refuse(
        400, OVERFLOW, type="invalid_request_error", code="context_length_exceeded"
    )
    return house


def instructions(system: str) -> str:
    """The stored prompt in a system message: what stands before the request."""
    return system.partition("\n\nThe task all of this is for:")[0]


def options_of(house: House, **more: Any) -> Options:
    """Campaigns of three candidates, without a model that proposes changes."""
    return Options(prompt="", candidates=3, seed=1, state_dir=house.state, **more)


async def failed_run(client: Any, text: str = "What is the capital of Norway?") -> str:
    """Run the agent until it fails."""
    body = {"workflow": "agent-turn", "inputs": {"text": text}}
    run = (await client.request("POST", "/api/runs", body))["run"]
    async for _ in client.events(run):
        pass
    assert (await client.request("GET", f"/api/runs/{run}"))["status"] == "failed"
    return str(run)


@pytest.mark.proves("004-05")
@pytest.mark.proves("004-06")
@pytest.mark.proves("004-09")
async def test_failed_run_becomes_a_case_a_proposal_and_with_a_person_the_live_prompt(
    small_model: House,
) -> None:
    """The closed loop: forced failure, case file, evolution, proposal, confirmation, rollback."""
    state = small_model.state
    async with client_of(small_model) as client:
        run = await failed_run(client)
        shipped = (await client.request("GET", "/api/prompts/agent"))["text"]

        (handled,) = await handle_failures(client, options_of(small_model))

        assert handled.reflection.action == "adapt"
        adaptation = handled.adaptation
        assert adaptation is not None
        assert adaptation.state == "proposed"
        (case,) = read_cases([state / "evolution" / "cases" / f"failure-{run.lower()}.yaml"])
        assert case.inputs["text"] == "What is the capital of Norway?"
        assert OVERFLOW in case.about
        name = adaptation.campaigns[0]
        found = await client.request("GET", f"/api/evolution/{name}")
        assert found["campaign"]["required"] == [case.id]
        assert found["proposal"]["evidence"]["wins"] == 8
        best = next(
            one for one in found["candidates"] if one["id"] == found["proposal"]["candidate"]
        )
        assert best["learn"][case.id]["passes"] == 1
        assert found["candidates"][0]["learn"][case.id]["passes"] == 0
        assert (await client.request("GET", "/api/prompts/agent"))["text"] == shipped
        assert not (state / "evolution" / "promoted").exists()

        await client.request("POST", f"/api/evolution/{name}/promote", {"by": "Ada"})

        live = (await client.request("GET", "/api/prompts/agent"))["text"]
        assert live == best["genome"]["text"] != shipped
        answer = small_model.ask("What is the capital of Norway?")
        assert answer.json()["choices"][0]["message"]["content"] == "What is the capital of Norway?"

        await client.request("DELETE", "/api/evolution/promotions/agent")

        assert (await client.request("GET", "/api/prompts/agent"))["text"] == shipped
        await failed_run(client)


async def test_a_kind_of_failure_is_adapted_to_once(small_model: House) -> None:
    """The second run that fails alike, and those that the campaign measured, start nothing."""
    async with client_of(small_model) as client:
        await failed_run(client)
        first = await handle_failures(client, options_of(small_model))
        await failed_run(client, "What is the capital of Sweden?")

        again = await handle_failures(client, options_of(small_model))

    assert [one.reflection.action for one in first] == ["adapt"]
    assert again == []


async def test_campaigns_without_a_proposal_pause_and_end(house: House) -> None:
    """A failure that no prompt repairs costs three campaigns, hours apart."""
    house.model.when(lambda _request: True).refuse(400, "Out of order.")
    folder = house.state / "evolution" / "cases"
    folder.mkdir(parents=True)
    cases = fruit_cases({"learn": 0, "select": 1, "gate": 40}, "agent-turn", Check(contains="word"))
    (folder / "agent.yaml").write_text(case_file(cases), encoding="utf-8")
    options, begin = options_of(house), datetime(2027, 1, 1, tzinfo=UTC)
    async with client_of(house) as client:
        failure = await failure_of(client, await failed_run(client))

        async def attempt(hours: float) -> str:
            now = begin + timedelta(hours=hours)
            adaptation, _ = await adapt(client, options, failure, now=now)
            return adaptation.state

        assert await attempt(0) == "nothing"
        with pytest.raises(CampaignError, match="may begin at 2027-01-01T01:00"):
            await attempt(0.9)
        assert await attempt(1) == "nothing"
        with pytest.raises(CampaignError, match="may begin at 2027-01-01T03:00"):
            await attempt(2.9)
        assert await attempt(3) == "nothing"
        with pytest.raises(CampaignError, match="A person has to look at it"):
            await attempt(10_000)
    known = read_adaptation(options.folder, failure.fingerprint)
    assert known is not None
    assert len(known.campaigns) == 3
    assert len(read_cases([folder])) == 42


async def test_cancelled_and_measured_runs_are_no_failures(house: House) -> None:
    """A person ended the one, and a campaign wanted the other."""
    house.model.when("measured").refuse(400, "No.")
    async with client_of(house) as client:
        body = {"workflow": "agent-turn", "inputs": {"text": "measured"}}
        headers = {"x-hearth-client": "evolution"}
        run = (await client.request("POST", "/api/runs", body, headers=headers))["run"]
        async for _ in client.events(run):
            pass
        assert (await client.request("GET", f"/api/runs/{run}"))["status"] == "failed"

        assert await recent_failures(client) == []


@pytest.mark.parametrize(
    ("error", "unhealthy", "prompt", "action"),
    [
        ("the process ran out of memory", (), "agent", "more_memory"),
        ("The gateway does not answer", ("moe-gateway",), "agent", "restart"),
        ("The gateway does not answer", (), "agent", "ask"),
        ("the answer is not JSON", (), None, "ask"),
        ("the answer is not JSON", (), "agent", "adapt"),
    ],
)
def test_rules_choose_by_facts(
    error: str, unhealthy: tuple[str, ...], prompt: str | None, action: str
) -> None:
    """A prompt does not repair a service that is down."""
    failure = Failure(run="r", workflow="w", inputs={}, error=error, prompt=prompt)

    assert by_rules(Facts(failure=failure, unhealthy=unhealthy)).action == action


@pytest.mark.proves("004-04")
@pytest.mark.parametrize(
    ("answer", "action", "by"),
    [
        ('{"action": "nothing", "reason": "Not valid."}', "nothing", "model"),
        ('{"action": "restart", "reason": "Why not."}', "adapt", "rules"),
        ("I would restart it.", "adapt", "rules"),
    ],
)
async def test_model_chooses_among_what_the_facts_allow(
    house: House, answer: str, action: str, by: str
) -> None:
    """A small model that chooses what makes no sense is overruled."""
    house.model.when(lambda _request: True).say(answer)
    failure = Failure(run="r", workflow="w", inputs={}, error="not JSON", prompt="agent")
    async with client_of(house) as client:
        chosen = await reflect(client, Facts(failure=failure), "scripted")

    assert (chosen.action, chosen.by) == (action, by)
    asked: httpx2.Response | Any = house.model.requests[0].body
    assert "You decide what happens after a failed run." in str(asked)
