"""Responses that a key may refer to later, with the official client."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.api.test_responses import TOOL
from tests.integration.gateway.conftest import KEY, SERVICE_KEY, Lab, caller, events, wait_until

PATH = "/v1/responses"


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@contextmanager
def client_of(gateway: httpx2.Client, key: str = KEY) -> Iterator[openai.OpenAI]:
    url = f"{gateway.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0) as client:
        yield client


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    return lab.gateway(lab.expert(model, slots=4))


@pytest.fixture
def client(gateway: httpx2.Client) -> Iterator[openai.OpenAI]:
    with client_of(gateway) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
def test_second_turn_needs_only_the_id_of_the_first(
    client: openai.OpenAI, model: ScriptedModel, *, stream: bool
) -> None:
    """Thoughts, calls and results of three turns reach the model; instructions are of one turn."""
    model.when("weather in").say("Where?", thoughts="Which town?")
    model.when("Oslo").call_tool("weather", {"place": "Oslo"})
    model.when(lambda request: request.messages[-1].role == "tool").say("Cold.")

    def ask(**fields: Any) -> Any:
        if not stream:
            return client.responses.create(model="small", tools=[TOOL], **fields)
        with client.responses.stream(model="small", tools=[TOOL], **fields) as events:
            return events.get_final_response()

    first = ask(input="weather in town", instructions="Be short.")
    second = ask(input="Oslo", previous_response_id=first.id)
    call = second.output[0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "5"}
    third = ask(input=[result], previous_response_id=second.id)

    assert third.output_text == "Cold."
    assert third.previous_response_id == second.id
    assert model.requests[-1].body["messages"] == [
        {"role": "user", "content": "weather in town"},
        {"role": "assistant", "content": "Where?", "reasoning_content": "Which town?"},
        {"role": "user", "content": "Oslo"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": call.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": call.call_id, "content": "5"},
    ]
    assert "previous_response_id" not in model.requests[-1].body


def test_reference_stands_for_the_item(client: openai.OpenAI, model: ScriptedModel) -> None:
    """The AI SDK sends its second turn so: the ids of what the model said, not the words. Some
    clients leave out the type."""
    model.when("hello").say("Good day.", thoughts="They greet.")
    first = client.responses.create(model="small", input="hello")
    thought, said = first.output
    turns: Any = [
        {"role": "user", "content": "hello"},
        {"type": "item_reference", "id": thought.id},
        {"id": said.id},
        {"role": "user", "content": "and then?"},
    ]
    client.responses.create(model="small", input=turns)

    assert model.requests[-1].body["messages"][1:] == [
        {"role": "assistant", "content": "Good day.", "reasoning_content": "They greet."},
        {"role": "user", "content": "and then?"},
    ]


def test_response_is_read_and_deleted_by_its_id(client: openai.OpenAI) -> None:
    """What is read later is what was answered; what is deleted cannot be referred to."""
    first = client.responses.create(model="small", input="hello", metadata={"a": "b"})

    assert client.responses.retrieve(first.id) == first
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="small", input="x", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    reference: Any = {"type": "item_reference", "id": first.output[0].id}
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="small", input=[reference])
    assert missing.value.param == "input[0]"


def test_no_key_reaches_the_response_of_another(gateway: httpx2.Client) -> None:
    """Neither by its id nor by those of its items, to read or to delete it."""
    with client_of(gateway) as one, client_of(gateway, SERVICE_KEY) as other:
        first = one.responses.create(model="small", input="my secret")

        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            other.responses.delete(first.id)
        with pytest.raises(openai.BadRequestError):
            other.responses.create(model="small", input="x", previous_response_id=first.id)
        reference: Any = {"type": "item_reference", "id": first.output[0].id}
        with pytest.raises(openai.NotFoundError):
            other.responses.create(model="small", input=[reference])
        assert one.responses.retrieve(first.id).output_text == "my secret"
    with caller(str(gateway.base_url), "sk-none") as nobody:
        assert nobody.get(f"{PATH}/{first.id}").status_code == 401


def test_store_false_keeps_nothing(client: openai.OpenAI) -> None:
    """The answer says so, too."""
    first = client.responses.create(model="small", input="x", store=False)

    assert first.model_dump()["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_broken_answer_is_not_kept(lab: Lab, model: ScriptedModel) -> None:
    """Half an answer is no turn of a conversation."""
    model.when("go").lose("one two", after=1)
    gateway = lab.gateway(lab.expert(model))
    answer = gateway.post(PATH, json={"model": "small", "input": "go", "stream": True})
    first, last = events(answer)[0], events(answer)[-1]

    assert (first["type"], last["type"]) == ("response.created", "error")
    assert not _is_there(gateway, first["response"]["id"])


class TestLimits:
    """Memory is bounded, and nothing is kept for ever."""

    def test_oldest_makes_room(self, lab: Lab, model: ScriptedModel) -> None:
        """By number and by bytes; what could never be kept is not promised to be."""
        gateway = lab.gateway(lab.expert(model), responses_per_key=2, responses_bytes_per_key=6000)
        with client_of(gateway) as client:
            ids = [client.responses.create(model="small", input="x").id for _ in range(3)]
            assert [_is_there(gateway, one) for one in ids] == [False, True, True]

            large = client.responses.create(model="small", input="y" * 1500)
            assert [_is_there(gateway, one) for one in (*ids, large.id)] == [False] * 3 + [True]

            huge = client.responses.create(model="small", input="z" * 7000)
            assert huge.model_dump()["store"] is False
            assert _is_there(gateway, large.id)

    def test_key_with_most_gives_way_for_all(self, lab: Lab, model: ScriptedModel) -> None:
        """One greedy key does not push out the responses of others."""
        gateway = lab.gateway(lab.expert(model), responses_bytes=9000)
        with client_of(gateway) as one, client_of(gateway, SERVICE_KEY) as greedy:
            mine = one.responses.create(model="small", input="x")
            ids = [greedy.responses.create(model="small", input="y" * 1000).id for _ in range(5)]

            assert _is_there(gateway, mine.id)
            with pytest.raises(openai.NotFoundError):
                greedy.responses.retrieve(ids[0])
            assert greedy.responses.retrieve(ids[-1]).status == "completed"

    def test_time_ends(self, lab: Lab, model: ScriptedModel) -> None:
        """By itself; with no time at all, nothing is kept."""
        short = lab.gateway(lab.expert(model), responses_seconds=0.2)
        never = lab.gateway(lab.expert(model), responses_seconds=0)
        with client_of(short) as client:
            first = client.responses.create(model="small", input="x")
            wait_until(lambda: not _is_there(short, first.id))
        with client_of(never) as client:
            unkept = client.responses.create(model="small", input="x")

        assert first.model_dump()["store"] is True
        assert unkept.model_dump()["store"] is False


def _is_there(gateway: httpx2.Client, id: str) -> bool:
    return gateway.get(f"{PATH}/{id}").status_code == 200
