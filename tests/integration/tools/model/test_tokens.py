"""The tools `llm.tokens` and `llm.cull` against a model server on a real socket."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hearth.openai_api.testing import ScriptedModel
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.model.test_llm import HELLO, asking

Serve = Callable[[ASGIApp], str]
TOKENS = TOOLS["llm.tokens"]
CULL = TOOLS["llm.cull"]


async def test_each_token_has_its_probability_and_the_prefix_is_continued(serve: Serve) -> None:
    """The words are streamed too; what the model is to continue is the last message."""
    model = ScriptedModel("small", key="k")
    model.when("Good").say("day to you.")
    heard: list[str] = []
    inputs = {"model": "small", "messages": HELLO, "prefix": "Good", "seed": 7, "top": 3}
    async with asking(serve(model.app), heard) as ctx:
        answer = await TOKENS.check(ctx, inputs)

    assert "".join(heard) == answer["text"] == "".join(one["token"] for one in answer["tokens"])
    assert {one["probability"] for one in answer["tokens"]} == {round(math.exp(-0.5), 6)}
    assert (answer["mean_logprob"], answer["perplexity"]) == (-0.5, round(math.exp(0.5), 3))
    asked = model.requests[0].body
    assert asked["messages"][-1] == {"role": "assistant", "content": "Good"}
    assert (asked["logprobs"], asked["top_logprobs"], asked["seed"]) == (True, 3, 7)


def chunk(choice: dict[str, Any]) -> bytes:
    """An event of a streamed answer, as a server writes it."""
    body = {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
    return f"data: {json.dumps(body)}\n\n".encode()


def served_as(serve: Serve, *choices: dict[str, Any]) -> str:
    """A server that streams these chunks, whatever it is asked."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = b"".join(map(chunk, choices)) + b"data: [DONE]\n\n"
        await Response(body, media_type="text/event-stream")(scope, receive, send)

    return serve(app)


async def test_model_without_probabilities_is_named(serve: Serve) -> None:
    """An answer without colours would look as if the model were sure of everything."""
    address = served_as(serve, {"delta": {"content": "Hi"}, "finish_reason": "stop"})
    async with asking(address) as ctx:
        with pytest.raises(ToolFailed, match="'plain' does not return the probabilities"):
            await TOKENS.check(ctx, {"model": "plain", "messages": HELLO})


async def test_character_of_several_tokens_is_whole_and_no_part_of_one_is_offered(
    serve: Serve,
) -> None:
    """llama.cpp tells such a token by its bytes; a person can only continue with text."""
    first, last = b"\xe2\x82", b"\xac"
    told = [
        {"token": "", "bytes": [*first], "logprob": -1.0, "top_logprobs": []},
        {
            "token": "",
            "bytes": [*last],
            "logprob": -1.0,
            "top_logprobs": [
                {"token": "", "bytes": [172], "logprob": -1.0},
                {"token": " x", "bytes": [32, 120], "logprob": -2.0},
            ],
        },
    ]
    choice = {"delta": {"content": "€"}, "finish_reason": "stop", "logprobs": {"content": told}}
    async with asking(served_as(serve, choice)) as ctx:
        answer = await TOKENS.check(ctx, {"messages": HELLO})
    assert [one["token"] for one in answer["tokens"]] == ["", "€"]
    assert [one["token"] for one in answer["tokens"][1]["alternatives"]] == [" x"]


async def test_server_that_is_away_fails_the_node_with_the_remedy() -> None:
    """A person reads what to start."""
    async with asking("http://127.0.0.1:9") as ctx:
        with pytest.raises(ToolFailed, match="hearth up"):
            await TOKENS.check(ctx, {"messages": HELLO})


async def test_uncertain_answers_are_culled_and_the_most_certain_is_first() -> None:
    """The margin is measured from the best: with 0 only the best is kept."""
    answers = [
        {
            "text": text,
            "prefix": "",
            "tokens": [],
            "mean_logprob": mean,
            "perplexity": 1.0,
            "finish_reason": "stop",
            "model": "m",
        }
        for text, mean in (("b", -0.9), ("c", -2.0), ("a", -0.5))
    ]
    ranked = (await CULL.check(Context(), {"answers": answers, "margin": 0.4}))["answers"]
    assert [(one["text"], one["rank"], one["kept"]) for one in ranked] == [
        ("a", 1, True),
        ("b", 2, True),
        ("c", 3, False),
    ]
    ranked = (await CULL.check(Context(), {"answers": answers, "margin": 0}))["answers"]
    assert [one["kept"] for one in ranked] == [True, False, False]
