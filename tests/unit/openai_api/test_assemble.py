"""One whole answer out of a streamed one."""

from base64 import b64decode, b64encode
from typing import Any

import pytest

from hearth.openai_api.assemble import Assembler

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def assembled(*choices: dict[str, Any], **last: Any) -> dict[str, Any]:
    """The answer made of chunks with one choice each, and a last chunk with these fields."""
    whole = Assembler()
    for choice in choices:
        whole.add({**HEAD, "choices": [choice]})
    whole.add({**HEAD, "created": 8, "choices": [], **last})
    return whole.completion()


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": fields, "finish_reason": finish}


def test_text_is_joined_and_the_frame_kept() -> None:
    """A caller that does not stream sees what a server that does not stream would say."""
    answer = assembled(
        delta(role="assistant", content=None),
        delta(content="Good "),
        delta(content="day"),
        delta(finish="stop"),
        usage={"prompt_tokens": 1},
        timings={"predicted_n": 2},
    )

    assert answer == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "usage": {"prompt_tokens": 1},
        "timings": {"predicted_n": 2},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {"role": "assistant", "content": "Good day", "refusal": None},
            }
        ],
    }


def test_parallel_tool_calls_are_put_together_by_index() -> None:
    """Their pieces come interleaved; the index is for streams only and goes."""
    answer = assembled(
        delta(role="assistant", content=None),
        delta(tool_calls=[{"index": 0, "id": "a", "type": "function", "function": {"name": "f"}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"x":'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": " 1}"}}]),
        delta(finish="tool_calls"),
    )

    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_tool_calls_without_index_begin_with_their_id() -> None:
    """Some servers leave the index out."""
    answer = assembled(
        delta(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{"}}]),
        delta(tool_calls=[{"function": {"arguments": "}"}}]),
        delta(tool_calls=[{"id": "b", "function": {"name": "g", "arguments": "{}"}}]),
    )

    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [
        ("a", "{}"),
        ("b", "{}"),
    ]


def test_several_choices_stay_apart() -> None:
    """`n: 2` streams both answers in one stream, in any order."""
    answer = assembled(
        delta(1, content="b"), delta(0, content="a"), delta(1, "length"), delta(0, "stop")
    )

    found = [(c["message"]["content"], c["finish_reason"]) for c in answer["choices"]]
    assert found == [("a", "stop"), ("b", "length")]


def test_log_probabilities_are_joined() -> None:
    """Each chunk brings those of its own tokens."""
    first = {**delta(content="a"), "logprobs": {"content": [{"token": "a"}], "refusal": None}}
    second = {**delta(content="b"), "logprobs": {"content": [{"token": "b"}], "refusal": None}}
    answer = assembled(first, second, {**delta(finish="stop"), "logprobs": None})

    assert answer["choices"][0]["logprobs"] == {
        "content": [{"token": "a"}, {"token": "b"}],
        "refusal": None,
    }


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
def test_thoughts_and_refusals_are_texts_of_their_own(field: str) -> None:
    """Reasoning models stream their thoughts beside the answer."""
    pieces = [{"delta": {field: "I "}}, {"delta": {field: "see"}}, delta(content="Yes")]
    answer = assembled(*pieces)

    message = answer["choices"][0]["message"]
    assert message[field] == "I see"
    assert message["content"] == "Yes"


def test_plain_completion_joins_its_text() -> None:
    """`/v1/completions` streams `text` instead of deltas."""
    whole = Assembler()
    for text in ("Good ", "day"):
        whole.add({"object": "text_completion", "choices": [{"index": 0, "text": text}]})

    answer = whole.completion()

    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == "Good day"


def test_unknown_fields_survive() -> None:
    """Servers add their own; the last value that says something stands."""
    answer = assembled(delta(annotations=[1]), {**delta(content="x"), "stop_reason": 2}, extra="e")

    assert answer["extra"] == "e"
    assert answer["choices"][0]["stop_reason"] == 2
    assert answer["choices"][0]["message"]["annotations"] == [1]


@pytest.mark.parametrize("cut", [3, 4])
def test_sound_and_its_words_are_joined(cut: int) -> None:
    """Each piece is base64 of its own, so the first may end with padding."""
    sound = bytes(range(9))
    pieces = [b64encode(sound[:cut]).decode(), b64encode(sound[cut:]).decode()]
    answer = assembled(
        delta(audio={"id": "audio_1", "transcript": "Good "}),
        delta(audio={"data": pieces[0]}),
        delta(audio={"data": pieces[1], "transcript": "day", "expires_at": 7}),
    )

    audio = answer["choices"][0]["message"]["audio"]
    assert b64decode(audio.pop("data")) == sound
    assert audio == {"id": "audio_1", "transcript": "Good day", "expires_at": 7}


def test_older_function_call_and_lists_are_joined() -> None:
    """Of these the last piece used to stand for all."""
    answer = assembled(
        delta(function_call={"name": "f", "arguments": ""}, annotations=[{"n": 1}]),
        delta(function_call={"arguments": '{"x":'}, annotations=[{"n": 2}]),
        delta(function_call={"arguments": " 1}"}),
    )

    message = answer["choices"][0]["message"]
    assert message["function_call"] == {"name": "f", "arguments": '{"x": 1}'}
    assert message["annotations"] == [{"n": 1}, {"n": 2}]
