"""Looking at a streamed answer while it passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.openai_api.sse import MAX_EVENT_BYTES, EventTooLong, sse_event
from hearth.openai_api.usage import StreamTap, TokenCount, count_of

WORD = sse_event({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": None})
TRICK = sse_event({"choices": [{"delta": {"content": '"usage": {"prompt_tokens": 1} [DONE]'}}]})
COUNTS = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
USAGE = sse_event({"choices": [], "usage": COUNTS})
LAST_WITH_USAGE = sse_event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": COUNTS})
DONE = sse_event("[DONE]")
COMMENT = b": still here\n\n"
STREAMS = st.lists(st.sampled_from([WORD, TRICK, COMMENT, USAGE]), max_size=8)
SIZES = st.lists(st.integers(1, 60), max_size=40)


def passed(tap: StreamTap, wire: bytes, sizes: list[int]) -> bytes:
    """What the tap lets through of a stream that comes in pieces of these sizes."""
    out = b""
    for size in sizes:
        out += tap.feed(wire[:size])
        wire = wire[size:]
    return out + tap.feed(wire)


@given(STREAMS, SIZES, st.sampled_from([b"\n", b"\r\n"]))
def test_usage_chunk_is_stripped_however_the_bytes_are_cut(
    events: list[bytes], sizes: list[int], newline: bytes
) -> None:
    """A caller who asked for no usage gets every other byte, and not one of the usage chunk."""
    events = [*events, WORD, USAGE, DONE]
    wanted = b"".join(event for event in events if event != USAGE)
    wire, wanted = (data.replace(b"\n", newline) for data in (b"".join(events), wanted))
    tap = StreamTap(strip=True)

    assert passed(tap, wire, sizes) == wanted
    assert tap.usage == TokenCount(3, 5)
    assert tap.done


@given(STREAMS, SIZES)
def test_nothing_changes_when_the_caller_asked_for_usage(
    events: list[bytes], sizes: list[int]
) -> None:
    """The gateway counts, but the answer is the server's own."""
    wire = b"".join([*events, WORD, USAGE, DONE])
    tap = StreamTap(strip=False)

    assert passed(tap, wire, sizes) == wire
    assert tap.usage == TokenCount(3, 5)


def test_usage_in_the_last_word_is_counted_and_stays() -> None:
    """Some servers put it beside the finish reason, which the caller needs."""
    tap = StreamTap(strip=True)

    assert tap.feed(LAST_WITH_USAGE) == LAST_WITH_USAGE
    assert tap.usage == TokenCount(3, 5)


def test_half_an_event_waits_for_its_end() -> None:
    """An error event of ours must never be glued to half an event of the server."""
    tap = StreamTap(strip=False)

    assert tap.feed(WORD + DONE[:5]) == WORD
    assert not tap.done
    assert tap.feed(DONE[5:]) == DONE
    assert tap.done


def test_error_event_is_noticed() -> None:
    """A stream that ends with the server's own error event needs none of ours."""
    tap = StreamTap(strip=False)
    tap.feed(sse_event({"error": {"message": "out of memory"}}))

    assert tap.failed
    assert not tap.done


def test_broken_json_passes_untouched() -> None:
    """The gateway is no judge of what it does not understand."""
    tap = StreamTap(strip=True)
    wire = b'data: {"usage": \n\ndata: ["usage"]\n\n'

    assert tap.feed(wire) == wire


def test_event_without_end_is_given_up() -> None:
    """A server gone mad must not fill our memory."""
    tap = StreamTap(strip=False)

    tap.feed(b"x" * MAX_EVENT_BYTES)
    with pytest.raises(EventTooLong):
        tap.feed(b"x")


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": "3"}, {"prompt_tokens": None}])
def test_what_is_no_usage_counts_nothing(usage: object) -> None:
    """Figures come from numbers only."""
    assert count_of(usage) is None


def test_embeddings_have_only_a_prompt() -> None:
    """Their usage has no `completion_tokens`."""
    assert count_of({"prompt_tokens": 4, "total_tokens": 4}) == TokenCount(4, 0)
