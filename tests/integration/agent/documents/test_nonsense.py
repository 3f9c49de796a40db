"""Requests that say what cannot be said: they are refused in words, and nothing of them is kept."""

import sys

import pytest

from hearth.cli import main
from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import announce


@pytest.mark.parametrize(
    ("method", "path", "headers", "code"),
    [
        ("GET", "/api/runs/{run}/events?after=99999999999999999999", {}, "integer_above_max_value"),
        ("GET", "/api/runs/{run}/events", {"last-event-id": "9" * 5000}, "invalid_event_id"),
        ("POST", "/api/session", {"origin": "http://["}, "foreign_origin"),
    ],
)
def test_number_or_origin_out_of_range_is_refused_in_words(
    house: House, method: str, path: str, headers: dict[str, str], code: str
) -> None:
    """Whoever sends nonsense is told so, and the log of the service stays empty."""
    with house.client() as client:
        run = client.post("/api/runs", json={"workflow": "agent-turn", "inputs": {"text": "a"}})
        answer = client.request(
            method, path.format(run=run.json()["run"]), headers=headers, json={"key": "x"}
        )

    assert answer.json()["error"]["code"] == code


@pytest.mark.parametrize(
    "body",
    [
        b'{"workflow": "agent-turn", "inputs": {"text": "cut \\ud83d"}}',
        b'{"workflow": "agent-turn", "inputs": {"text": "cut \xed\xa0\xbd"}}',
        b'{"workflow": "agent-turn", "inputs": {"max_tokens": NaN}}',
    ],
)
def test_body_that_json_cannot_say_is_refused(house: House, body: bytes) -> None:
    """Kept once, half a character breaks every page that shows it: the run, the list, the status.

    A whole character in two escapes is kept as it is.
    """
    whole = body.split(b"cut")[0] + b'\\ud83d\\ude00"}}' if b"cut" in body else b"{}"
    with house.client() as client:
        client.headers["content-type"] = "application/json"
        refused = client.post("/api/runs", content=body)
        kept = client.post("/api/runs", content=whole)
        listed = client.get("/api/runs").json()["runs"]

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_json")
    assert kept.status_code in (201, 400)
    assert [one["title"] for one in listed] == ["\U0001f600"] * (kept.status_code == 201)


@pytest.mark.parametrize("part", [{"type": "text"}, {"type": "text", "text": 5}])
def test_part_of_a_message_that_has_no_text_is_told(house: House, part: dict[str, object]) -> None:
    """A client with a fault must read what is wrong, not that the service made a mistake."""
    message = {"role": "user", "content": [part]}
    with house.client() as client:
        answer = client.post("/v1/chat/completions", json={"model": "agent", "messages": [message]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "no_user_message")


def test_word_that_is_no_text_is_told_in_the_shell(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal with other letters than UTF-8 must not show how we are built inside."""
    announce(house)
    words = ["hearth", "run", "gr\udcfcn", "--state-dir", str(house.state)]
    monkeypatch.setattr(sys, "argv", words)

    with pytest.raises(SystemExit, match="not valid UTF-8"):
        main()
