"""What the real agent asks the real gateway for somebody: it is that person who asks."""

import sqlite3
from contextlib import closing

import pytest

from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import CHAT, SERVICE_KEY, caller, chat, wait_until


def test_tokens_of_a_run_count_for_who_asked_and_once(house: House) -> None:
    """The agent asks twice, with its own key; both answers are on the account of the tablet."""
    house.small.when("what time").call_tool("time_now", {})
    with house.key("tablet") as tablet:
        answer = tablet.post(CHAT, json=chat("what time is it", "agent")).raise_for_status()
        spent = answer.json()["usage"]["total_tokens"]
        wait_until(lambda: house.used("tablet") >= spent, 60)
        metrics = house.gateway.get("/metrics").text

    assert len(house.small.requests) == 2
    assert house.used("tablet") == spent > 0
    told = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in metrics.splitlines()}
    assert told['moe_gateway_key_requests_total{key="tablet"}'] == "3.0"
    assert told['moe_gateway_key_requests_total{key="service_key"}'] == "0.0"
    assert all("x-hearth-caller" not in one.headers for one in house.small.requests)
    assert "x-hearth-caller" not in answer.headers


def test_run_ends_when_the_budget_of_who_asked_is_spent(house: House) -> None:
    """Between two of its questions; the person is told whose budget it was."""
    house.small.when("what hour").call_tool("time_now", {})
    with house.key("child", tokens_per_day=1) as child:
        answer = child.post(CHAT, json=chat("what hour is it", "agent"))
        wait_until(lambda: house.used("child") > 0, 60)
        again = child.post(CHAT, json=chat("what hour is it", "agent"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "run_failed")
    told = answer.json()["error"]["message"]
    assert "On behalf of the key 'child': This key has spent its 1 tokens of today" in told
    assert (again.status_code, again.json()["error"]["code"]) == (429, "insufficient_quota")
    assert len(house.small.requests) == 1


def test_run_asks_no_model_that_who_asked_may_not_use(house: House) -> None:
    """A key for the small model gets no answer of the big one by way of a workflow."""
    with house.key("guest", models=("agent", "auto", "workflow/*")) as guest:
        allowed = guest.post(CHAT, json=chat("hello", "agent"))
        refused = guest.post(CHAT, json=chat("hello", "workflow/ask-big"))

    assert allowed.status_code == 200, allowed.text
    assert refused.json()["error"]["code"] == "run_failed"
    told = refused.json()["error"]["message"]
    assert "On behalf of the key 'guest': This key may not use the model 'big'" in told
    assert (len(house.small.requests), house.big.requests) == (1, [])


def test_run_opens_no_more_than_the_key_of_who_asked(house: House) -> None:
    """A workflow that only asks a model is for every key; what stands behind that model is not."""
    with house.key("talker", scopes=("chat",)) as talker:
        refused = talker.post(CHAT, json=chat("hello", "workflow/ask-agent"))

    told = refused.json()["error"]["message"]
    assert "On behalf of the key 'talker': The model 'agent' needs a key with the scope" in told
    assert house.small.requests == []


def test_workflow_that_asks_itself_comes_to_an_end(house: House) -> None:
    """Through three runs and three requests, whose depth each run passes on."""
    with house.key("curious") as curious:
        answer = curious.post(CHAT, json=chat("hello", "workflow/ask-itself"))
    with caller(house.agent_url, SERVICE_KEY) as service:
        runs = service.get("/api/runs", params={"workflow": "ask-itself"}).json()["runs"]

    assert "The agent has asked itself 3 times in a row" in answer.json()["error"]["message"]
    assert len(runs) == 3


@pytest.mark.parametrize("model", ["agent", "workflow/ask-first"])
def test_conversation_of_another_key_is_not_there(house: House, model: str) -> None:
    """Naming the diary of somebody puts neither its words before a model nor new ones into it."""
    diary = {"conversation": f"diary-{model[:5]}"}
    house.gateway.post(CHAT, json=chat("my secret is 4711", "agent") | diary).raise_for_status()
    house.small.requests.clear()
    with house.key(f"visitor-{model[:5]}") as visitor, caller(house.agent_url, SERVICE_KEY) as own:
        refused = visitor.post(CHAT, json=chat("what is my secret", model) | diary)
        mine = {"conversation": f"mine-{model[:5]}"}
        for text in ("I am Vi.", "Who am I?"):
            visitor.post(CHAT, json=chat(text, "agent") | mine).raise_for_status()
        seen = own.get("/api/conversations").json()["conversations"]
        turns = own.get(f"/api/conversations/{diary['conversation']}").json()["turns"]

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (404, "conversation_not_found")
    asked = str([one.body["messages"] for one in house.small.requests])
    assert "4711" not in asked
    assert asked.count("I am Vi.") > 1, "its own conversation goes on"
    assert {diary["conversation"], mine["conversation"]} <= {one["id"] for one in seen}
    assert [turn["user"] for turn in turns] == ["my secret is 4711"]


def test_notes_are_found_by_the_key_that_saved_them_and_the_built_in_one(house: House) -> None:
    """A fact that one person has kept is no answer to another person."""
    house.small.when("keep it").call_tool("note_save", {"text": "The piano teacher is Ms Gray."})
    house.small.when("who teaches").call_tool("note_find", {"query": "piano"})
    with house.key("pupil") as pupil, house.key("stranger") as stranger:
        pupil.post(CHAT, json=chat("keep it", "agent")).raise_for_status()
        found = []
        for one in (pupil, stranger, house.gateway):
            house.small.requests.clear()
            one.post(CHAT, json=chat("who teaches", "agent")).raise_for_status()
            found.append("Ms Gray" in str(house.small.requests[-1].body["messages"]))

    assert found == [True, False, True]


def test_run_that_waits_for_a_person_goes_on_for_who_asked_after_a_restart(house: House) -> None:
    """Whoever answers it days later does not pay for it."""
    with house.key("patient") as patient:
        asked = patient.post(CHAT, json=chat("hello there", "workflow/ask-first"))
        run = asked.raise_for_status().headers["x-hearth-run"]
        house.restart()
        with caller(house.agent_url, SERVICE_KEY) as service:
            where = f"/api/runs/{run}"
            wait_until(lambda: service.get(where).json()["status"] == "waiting", 60)
            service.post(f"{where}/answer", json={"path": "may", "value": "yes"}).raise_for_status()
            wait_until(lambda: service.get(where).json()["status"] == "done", 60)
        wait_until(lambda: house.used("patient") > 0, 60)

    count = "SELECT count(*) FROM behalf WHERE run = ?"
    with closing(sqlite3.connect(house.settings.state.ledger)) as ledger:
        wait_until(lambda: ledger.execute(count, (run,)).fetchone() == (0,), 60)
        assert ledger.execute(count, (run,)).fetchone() == (0,)
