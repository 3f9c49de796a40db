"""Volatile lines at the beginning of prompts: which are found, and where they go."""

import json
from typing import Any

import pytest

from moe_gateway.routing.body import look_at
from moe_gateway.routing.prefix import MOST_LINES, REMEMBERED, Prefixes, Stable

Json = dict[str, Any]
RULES = "You look after a house. Its doors and lamps are yours to know. " * 20


def turns(system: str, *said: str) -> list[Json]:
    """A conversation that begins with that system prompt; user and assistant take turns."""
    roles = ("user", "assistant")
    talk = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    return [{"role": "system", "content": system}, *talk]


def stable(
    prefixes: Prefixes,
    messages: list[Json],
    session: bytes = b"",
    caller: str = "me",
    **fields: Any,
) -> Stable:
    body = json.dumps({"model": "small", "messages": messages, **fields}).encode()
    return prefixes.stable(caller, session, body, look_at(body))


def contents(found: Stable) -> list[Any]:
    return [one["content"] for one in json.loads(found.body)["messages"]]


@pytest.mark.parametrize(
    "line",
    [
        "Current time: 14:03:22",
        "- The current date and time is 2026-11-25 14:03.",
        "Current date: Wednesday, November 25, 2026, 2:03 PM",
        "Now: 14:03",
        "Today is 2026-11-25T14:03:22Z.",
        "Local time 9:05",
    ],
)
def test_clock_goes_to_the_end(line: str) -> None:
    """By rule, in the first turn; where the last turn is the user's, into that."""
    found = stable(Prefixes(), turns(f"{line}\n{RULES}\nBe brief.", "hello"))

    assert contents(found) == [
        f"{RULES}\nBe brief.", f"hello\n\n<system>\n{line}\n</system>",
    ]  # fmt: skip
    assert found.notice == "; volatile lines of the system prompt moved to the end: 1"


@pytest.mark.parametrize(
    "line",
    ["The shop opens at 10:00.", "Today's date: 2026-11-25", "See chapter 3:16.", "It is now."],
)
def test_text_that_is_no_clock_stays(line: str) -> None:
    """A moved rule would be read out of its place."""
    body = json.dumps({"model": "small", "messages": turns(f"{line}\n{RULES}", "hi")}).encode()

    assert Prefixes().stable("me", b"", body, look_at(body)) == Stable(body)


def test_billing_line_is_left_out() -> None:
    """Claude Code's, where another program has made a chat of its request."""
    line = "x-anthropic-billing-header: cc_version=2.1.332; cch=fa690;"

    found = stable(Prefixes(), turns(f"{line}\n{RULES}", "hello"))

    assert contents(found) == [RULES, "hello"]
    assert found.notice == "; left out a volatile system line"


def test_unknown_number_is_found_in_the_second_turn_of_a_session() -> None:
    """And is known from then on, also in the first turn of the next one."""
    prefixes = Prefixes()
    system = "build {}, nonce a{}f\n" + RULES

    first = stable(prefixes, turns(system.format(1, 77), "hello"), b"s1")
    second = stable(prefixes, turns(system.format(2, 78), "hello", "Hi.", "and?"), b"s1")
    other = stable(prefixes, turns(system.format(3, 79), "another"), b"s2")

    assert first.notice == ""
    assert contents(second)[0] == contents(other)[0] == RULES
    assert contents(second)[-1] == "and?\n\n<system>\nbuild 2, nonce a78f\n</system>"


def test_without_a_session_the_first_answer_names_the_conversation() -> None:
    """Two conversations that begin with the same words are not compared."""
    prefixes = Prefixes()
    system = "House number {}.\n" + RULES
    for house in (12, 13):
        assert not stable(prefixes, turns(system.format(house), "hello")).notice
        own = turns(system.format(house), "hello", f"Here is {house}.", "and?")
        assert not stable(prefixes, own).notice

    changed = turns(system.format(14), "hello", "Here is 13.", "and?", "So.", "well?")
    assert stable(prefixes, changed).notice


def test_cache_key_of_the_caller_names_the_conversation() -> None:
    """Codex sends one."""
    prefixes, system = Prefixes(), "turn {}\n" + RULES
    stable(prefixes, turns(system.format(1), "hello"), prompt_cache_key="c")

    assert stable(prefixes, turns(system.format(2), "more"), prompt_cache_key="c").notice


def test_callers_do_not_learn_from_each_other() -> None:
    """One key must not change what another one sends."""
    prefixes, system = Prefixes(), "turn {}\n" + RULES
    for turn in (1, 2):
        stable(prefixes, turns(system.format(turn), "hello"), b"s")

    assert stable(prefixes, turns(system.format(3), "hello"), b"s").notice
    assert not stable(prefixes, turns(system.format(3), "hello"), b"s", "another").notice


def test_other_words_are_no_volatile_line() -> None:
    """A system prompt that says something else is another one."""
    prefixes = Prefixes()
    stable(prefixes, turns(f"Be brief.\n{RULES}", "hello"), b"s")

    assert not stable(prefixes, turns(f"Be long.\n{RULES}", "hello"), b"s").notice


def test_many_lines_that_change_are_content() -> None:
    """A table of sensors is what the question is about."""
    prefixes = Prefixes()
    for turn in (1, 2):
        table = "\n".join(f"sensor {n * turn}" for n in range(1, MOST_LINES + 3))
        found = stable(prefixes, turns(f"{RULES}\n{table}", "hello"), b"s")

    assert found.notice == ""


@pytest.mark.parametrize("last", ["assistant", "tool"])
def test_end_of_a_prompt_without_a_turn_of_the_user(last: str) -> None:
    """The lines become a turn of their own; nothing of the prompt is lost."""
    messages = [*turns(f"Current time: 14:03\n{RULES}", "hello"), {"role": last, "content": "x"}]

    found = json.loads(stable(Prefixes(), messages).body)["messages"]

    assert found[1:3] == messages[1:]
    assert found[3] == {"role": "user", "content": "<system>\nCurrent time: 14:03\n</system>"}


def test_parts_of_the_last_turn_are_kept() -> None:
    """A turn with a picture is a list of parts."""
    parts = [{"type": "text", "text": "look"}]
    messages = [*turns(f"Current time: 14:03\n{RULES}"), {"role": "user", "content": parts}]

    found = contents(stable(Prefixes(), messages))[-1]

    assert found == [*parts, {"type": "text", "text": "<system>\nCurrent time: 14:03\n</system>"}]


@pytest.mark.parametrize(
    "messages",
    [
        turns("Current time: 14:03", "hello"),
        turns(RULES, "Current time: 14:03"),
        turns(f"Current time: 14:03\n{RULES}"),
        [{"role": "system", "content": [{"type": "text", "text": f"Now: 14:03\n{RULES}"}]}] * 2,
        [{"role": "user", "content": f"Now: 14:03\n{RULES}"}] * 2,
        [{"role": "system", "content": RULES}, {"content": "no role"}, 5],
        RULES,
    ],
)
def test_other_bodies_keep_their_bytes(messages: Any) -> None:
    """What is short, has no system prompt of text, or is not a conversation."""
    body = json.dumps({"model": "small", "messages": messages}).encode()

    assert Prefixes().stable("me", b"s", body, look_at(body)) == Stable(body)


def test_other_fields_keep_their_bytes() -> None:
    """Numbers that are read and written again may change."""
    body = (
        b'{"model": "small", "seed":  1e2, "messages": %s}'
        % json.dumps(turns(f"Now: 14:03\n{RULES}", "hello")).encode()
    )

    assert b'"seed":1e2' in Prefixes().stable("me", b"", body, look_at(body)).body


def test_memory_is_bounded() -> None:
    """A gateway runs for months."""
    prefixes = Prefixes()
    for n in range(REMEMBERED + 10):
        stable(prefixes, turns(f"x{n} words {'y' * n}\n{RULES}", "hello"), b"%d" % n)

    sizes = [len(memory) for memory in (prefixes._plain, prefixes._last, prefixes._learned)]
    assert max(sizes) == REMEMBERED
