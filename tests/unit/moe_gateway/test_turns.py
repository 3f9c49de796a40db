"""The order of turns that strict chat templates accept."""

from typing import Any

import pytest

from moe_gateway.routing.turns import strict

Json = dict[str, Any]
PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def turn(role: str, content: Any = "x", **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def test_turns_that_alternate_stay_as_they_are() -> None:
    """What is in order already is not touched."""
    turns = [turn("system"), turn("user"), turn("assistant"), turn("user")]

    assert strict(turns) == turns


def test_system_messages_at_the_beginning_become_one() -> None:
    """Codex sends its own and those of its developer mode."""
    assert strict([turn("system", "a"), turn("system", "b"), turn("user")]) == [
        turn("system", "a\n\nb"), turn("user"),
    ]  # fmt: skip


@pytest.mark.parametrize("before", ["user", "assistant", "tool"])
def test_later_system_message_stays_at_its_place_as_text_of_the_user(before: str) -> None:
    """Claude Code sends its environment after the first words of the user."""
    marked = "<system>\nsince then\n</system>"
    found = strict([turn("user", "hello"), turn(before, "x"), turn("system", "since then")])

    if before == "user":
        assert found == [turn("user", f"hello\n\nx\n\n{marked}")]
    else:
        assert found == [turn("user", "hello"), turn(before, "x"), turn("user", marked)]


def test_turns_of_the_user_in_a_row_become_one_with_all_parts() -> None:
    """Codex sends its environment and the question apart."""
    found = strict([turn("user", "look"), turn("user", [PICTURE]), turn("user", "well?")])

    parts = [{"type": "text", "text": "look"}, PICTURE, {"type": "text", "text": "well?"}]
    assert found == [turn("user", parts)]


def test_results_and_answers_in_a_row_stay_apart() -> None:
    """Each result names its call."""
    turns = [turn("assistant"), turn("tool", tool_call_id="1"), turn("tool", tool_call_id="2")]

    assert strict(turns) == turns


def test_earlier_turns_become_the_same_bytes_when_one_is_added() -> None:
    """So what a server has cached of them still holds."""
    turns = [turn("system", "a"), turn("user", "b"), turn("system", "c")]
    before, after = strict(turns), strict([*turns, turn("assistant"), turn("user")])

    assert after[: len(before)] == before
