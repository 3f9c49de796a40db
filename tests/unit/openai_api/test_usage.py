"""Looking at a streamed answer while it passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.openai_api.sse import MAX_EVENT_BYTES, EventTooLong, sse_event
from hearth.openai_api.usage import SeveralTap, StreamTap, TokenCount, count_of

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


def usage_of(prompt: int, completion: int, cached: int) -> bytes:
    """As llama-server tells it after each answer of several."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return sse_event({"id": "a", "choices": [], "usage": counts | details})


@given(SIZES)
def test_several_answers_cost_what_all_of_them_cost(sizes: list[int]) -> None:
    """Told of each, and only the last one counted, budgets would be overdrawn by the others; a
    client takes one sum. Two prompts, each answered twice; what is no chunk is taken out."""
    null = sse_event("null")
    first = [WORD, usage_of(3, 5, 2), usage_of(3, 7, 2)]
    events = [*first, null, WORD, usage_of(10, 1, 8), usage_of(10, 2, 8), COMMENT, DONE]
    told, strip = SeveralTap(2, strip=False), SeveralTap(2, strip=True)
    wire = b"".join(events)
    total = {"prompt_tokens": 13, "completion_tokens": 15, "total_tokens": 28}
    summed = {**total, "prompt_tokens_details": {"cached_tokens": 10}}
    chunk = sse_event({"id": "a", "choices": [], "usage": summed})

    assert passed(told, wire, sizes) == b"".join((WORD, WORD, COMMENT, chunk, DONE))
    assert passed(strip, wire, sizes) == b"".join((WORD, WORD, COMMENT, DONE))
    assert told.usage == strip.usage == TokenCount(13, 15, 10)
    assert told.done
    assert strip.done


def test_cost_that_is_told_once_for_several_answers_stays_as_it_is() -> None:
    """So OpenAI tells it."""
    tap = SeveralTap(2, strip=False)

    assert tap.feed(WORD + USAGE + DONE) == WORD + USAGE + DONE
    assert tap.usage == TokenCount(3, 5)


def test_cost_that_is_told_beside_the_last_words_of_each_answer_is_summed() -> None:
    """So llama-server tells it of plain completions: two prompts, whose words come in turns."""
    texts = [{"choices": [{"index": index, "text": "a"}]} for index in (0, 1)]
    ends = [sse_event({**text, "usage": COUNTS}) for text in texts]
    words = b"".join(map(sse_event, texts))
    tap, strip = SeveralTap(1, strip=False), SeveralTap(1, strip=True)
    total = {"prompt_tokens": 6, "completion_tokens": 10, "total_tokens": 16}
    summed = {**total, "prompt_tokens_details": {"cached_tokens": 0}}

    passed_on = tap.feed(words + b"".join(ends) + DONE)

    assert passed_on == words * 2 + sse_event({"choices": [], "usage": summed}) + DONE
    assert strip.feed(words + b"".join(ends) + DONE) == words * 2 + DONE
    assert tap.usage == strip.usage == TokenCount(6, 10)


def test_several_answers_that_break_off_cost_what_was_told() -> None:
    """The first one was whole; an event without end is given up as ever."""
    tap = SeveralTap(2, strip=False)

    assert tap.feed(WORD + usage_of(3, 5, 0) + WORD + b"data: {") == WORD + WORD
    assert tap.usage == TokenCount(3, 5)
    with pytest.raises(EventTooLong):
        tap.feed(b"x" * MAX_EVENT_BYTES)


@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("end", [b"", DONE, sse_event({"error": {"message": "broke"}}) + DONE])
@given(sizes=SIZES)
def test_tokens_of_a_stream_that_tells_no_usage_are_counted_about(
    shared: int, end: bytes, sizes: list[int]
) -> None:
    """Who hangs up pays for what was said, however it came and whatever ended it."""
    tap = SeveralTap(shared, strip=True) if shared else StreamTap(strip=True)
    assert tap.tokens() <= 0
    role = sse_event({"choices": [{"index": 0, "delta": {"role": "assistant"}}], "usage": None})

    passed(tap, role + WORD * 50 + end, sizes)

    assert tap.tokens() == pytest.approx(50, abs=3)
