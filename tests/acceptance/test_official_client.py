"""The official OpenAI client against the running whole."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from openai import AuthenticationError, NotFoundError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.acceptance.conftest import Instance


@pytest.fixture
def client(instance: Instance) -> Iterator[OpenAI]:
    with instance.client() as client:
        yield client


def ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def offered(client: OpenAI) -> set[str]:
    return {model.id for model in client.models.list()}


def test_models_lists_expert_auto_agent_and_workflows(client: OpenAI) -> None:
    """A client's model picker shows all that can be asked."""
    models = offered(client)

    assert {"auto", "smollm2", "agent"} <= models
    assert any(model.startswith("workflow/") for model in models)


@pytest.mark.proves("004-14")
@pytest.mark.parametrize("model", ["auto", "smollm2", "agent", "workflow/agent-turn"])
def test_client_gets_an_answer_streamed_and_whole(client: OpenAI, model: str) -> None:
    """Every model answers in both ways, with its usage."""
    whole = client.chat.completions.create(
        model=model, messages=ask("Say hello."), max_tokens=24, temperature=0
    )
    chunks = list(
        client.chat.completions.create(
            model=model, messages=ask("Say hello."), max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip

    assert whole.choices[0].message.content
    assert whole.usage
    assert whole.usage.completion_tokens > 0
    assert whole.usage.prompt_tokens > 0
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) > 1
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens > 0
    assert any(c.choices and c.choices[0].finish_reason for c in chunks)


def test_every_offered_workflow_answers(client: OpenAI) -> None:
    """What is in the list works."""
    for model in sorted(offered(client)):
        if model.startswith("workflow/"):
            answer = client.chat.completions.create(
                model=model, messages=ask("A cat sat on a mat. It was a warm day.")
            )
            assert answer.choices[0].message.content, model


def test_wrong_key_is_an_authentication_error(instance: Instance) -> None:
    """The client's own error class tells the person what is wrong."""
    client = OpenAI(base_url=instance.api, api_key="sk-wrong", max_retries=0)
    with client, pytest.raises(AuthenticationError) as caught:
        client.models.list()

    assert caught.value.status_code == 401
    assert caught.value.code == "invalid_api_key"


def test_unknown_model_names_the_near_one(client: OpenAI) -> None:
    """A typing mistake costs one look."""
    with pytest.raises(NotFoundError, match="smollm2") as caught:
        client.chat.completions.create(model="smolm2", messages=ask("hi"))

    assert caught.value.code == "model_not_found"


@pytest.mark.proves("004-15", "004-17")
def test_twenty_callers_of_the_agent_each_get_their_own_answer(instance: Instance) -> None:
    """An answer belongs to the one who asked: it is the output of the caller's own run."""

    def call(number: int) -> tuple[int, str, str]:
        with instance.client() as client:
            raw = client.chat.completions.with_raw_response.create(
                model="agent", messages=ask(f"Repeat the number {number}."), max_tokens=16
            )
            text = raw.parse().choices[0].message.content
            return number, raw.headers["x-hearth-run"], text or ""

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(call, range(20)))

    assert len({run for _, run, _ in answers}) == 20
    with instance.http() as http:
        for number, run, text in answers:
            view = http.get(f"/api/runs/{run}").json()
            assert view["status"] == "done"
            assert view["outputs"]["text"] == text
            assert f"Repeat the number {number}." in json.dumps(view["inputs"])
