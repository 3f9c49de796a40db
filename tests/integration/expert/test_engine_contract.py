"""What every engine must do, and what is known of each: the same tests, with the real model."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import psutil
import pytest

from hearth.models.engines import ENGINES, EngineFacts
from tests.integration.expert.running import CHAT, LONG, Expert, Starter, question, until

EXTENDED_INPUTS = [
    "hearth/models/engines.py",
    "hearth/settings.py",
    "llama_expert/**",
    "ansible/roles/llama_cpp/*",
    "requirements/engines.lock",
    "requirements/local.lock",
    "tests/integration/expert/running.py",
    "tests/integration/expert/conftest.py",
]
pytestmark = pytest.mark.extended


@pytest.fixture
def facts(expert: Expert) -> EngineFacts:
    return ENGINES[expert.engine]


def test_expert_is_known_by_the_name_of_the_catalogue(expert: Expert) -> None:
    """The gateway and every client choose it by that name, whatever its file is called."""
    body = expert.client.get("/v1/models").json()

    assert [model["id"] for model in body["data"]] == ["smollm2"]


@pytest.mark.parametrize("key", ["", "Bearer wrong"])
@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("GET", "/v1/models")])
def test_nobody_without_the_key_gets_an_answer(
    expert: Expert, method: str, path: str, key: str
) -> None:
    """The port is open to every program of the machine, and on a cluster to the network."""
    headers = {"Authorization": key}

    answer = expert.client.request(method, path, headers=headers, json=question("Hello"))

    assert answer.status_code == 401


def test_health_needs_no_key(expert: Expert) -> None:
    """Whoever watches a service must not need the right to use it."""
    assert expert.client.get("/health", headers={"Authorization": ""}).status_code == 200


def test_no_web_page_may_read_an_answer(expert: Expert) -> None:
    """A browser asks with the page's origin; only a server that allows it lets the page read."""
    answer = expert.client.get("/v1/models", headers={"Origin": "http://example.org"})

    assert answer.headers.get("access-control-allow-origin", "") == ""


def test_metrics_are_there(expert: Expert) -> None:
    """An expert that cannot be measured cannot be compared."""
    answer = expert.client.get("/metrics")

    assert answer.status_code == 200
    assert "# TYPE" in answer.text


def test_answer_in_one_piece_has_text_reason_and_usage(expert: Expert) -> None:
    """The smallest thing that every OpenAI client does."""
    body = expert.chat("What is the capital of France?", max_tokens=8, temperature=0)

    choice, usage = body["choices"][0], body["usage"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].strip()
    assert choice["finish_reason"] == "length"
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8


def test_stream_brings_the_text_in_pieces_and_ends_with_its_usage(
    expert: Expert, facts: EngineFacts
) -> None:
    """People read along, and the counts come without a second request."""
    options = {"stream_options": {"include_usage": True}}
    with expert.stream("Count to ten.", max_tokens=12, temperature=0, **options) as events:
        *chunks, last = list(events)

    pieces = [json.loads(chunk) for chunk in chunks]
    deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
    words = [delta["content"] for delta in deltas if delta.get("content")]
    usages = [piece["usage"]["completion_tokens"] for piece in pieces if piece.get("usage")]
    assert last == "[DONE]"
    assert len(words) > 5
    assert usages == ([12] if facts.stream_usage else [])


def test_two_callers_at_once_each_get_their_own_answer(expert: Expert) -> None:
    """Slots share one batch; an answer in the wrong hands would be a leak."""
    answers: dict[str, str] = {}

    def ask(word: str) -> None:
        grammar = f'root ::= "{word} " root | "{word}"'
        body = expert.chat("Say something.", max_tokens=24, grammar=grammar)
        answers[word] = body["choices"][0]["message"]["content"]

    threads = [threading.Thread(target=ask, args=(word,)) for word in ("apple", "river")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    strange = {
        word: text
        for word, text in answers.items()
        if not all(word.startswith(piece) for piece in text.split())
    }
    assert answers.keys() == {"apple", "river"}
    assert strange == {}


def test_callers_are_answered_at_once_where_the_engine_can(
    expert: Expert, facts: EngineFacts
) -> None:
    """The gateway sends as many callers as the facts allow; the others would wait in silence."""
    with expert.stream(LONG, max_tokens=3000, ignore_eos=True) as first:
        assert next(first)
        if facts.at_once:
            with expert.stream(LONG, max_tokens=3000, ignore_eos=True) as second:
                assert next(second)
                assert expert.busy_slots() == 2
        else:
            hang_up(expert, question("Hello", max_tokens=1), after=2)


def test_answer_follows_the_schema_where_the_engine_can(expert: Expert, facts: EngineFacts) -> None:
    """Workflows read fields out of answers; a sentence around them would break each one."""
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
        "required": ["city", "sure"],
        "additionalProperties": False,
    }
    form = {
        "type": "json_schema",
        "json_schema": {"name": "town", "strict": True, "schema": schema},
    }

    answer = expert.client.post(CHAT, json=question("A town?", max_tokens=60, response_format=form))

    assert (answer.status_code == 200) is facts.json_schema
    if facts.json_schema:
        town = json.loads(answer.json()["choices"][0]["message"]["content"])
        assert set(town) == {"city", "sure"}
        assert town["city"] in {"Paris", "Rome"}
        assert isinstance(town["sure"], bool)


def test_hanging_up_on_a_stream_frees_the_engine(expert: Expert, facts: EngineFacts) -> None:
    """A closed tab must not make the next person wait."""
    with expert.stream(LONG, max_tokens=3000, ignore_eos=True) as events:
        next(events)
        next(events)
        assert is_busy(expert, facts)()

    until(lambda: not is_busy(expert, facts)(), 20, "the engine is free again")


def test_hanging_up_on_an_answer_in_one_piece_frees_the_engine_at_last(
    expert: Expert, facts: EngineFacts
) -> None:
    """At once only where that is sure: elsewhere the gateway asks for a stream in its place."""
    hang_up(expert, question(LONG, max_tokens=200, ignore_eos=True), after=1)

    if facts.stops_unary:
        until(lambda: not is_busy(expert, facts)(), 20, "the engine stopped")
    elif not facts.at_once:
        assert is_busy(expert, facts)()
    until(lambda: not is_busy(expert, facts)(), 120, "the engine is free again")


def hang_up(expert: Expert, request: dict[str, Any], *, after: float) -> None:
    """Ask, and close the connection before the answer is there."""
    client = httpx2.Client(
        base_url=expert.client.base_url, headers=expert.client.headers, timeout=after
    )
    with client, pytest.raises(httpx2.ReadTimeout):
        client.post(CHAT, json=request)


def is_busy(expert: Expert, facts: EngineFacts) -> Callable[[], bool]:
    """How to see that the engine works on something."""
    return (lambda: expert.busy_slots() > 0) if facts.shows_slots else expert.works


def test_stop_signal_ends_it_with_nothing_left(starter: Starter) -> None:
    """An engine that outlives its launcher keeps the port and half a gigabyte."""
    with starter.running() as expert:
        engine = expert.engine_process()
        expert.process.terminate()
        code = expert.ended()

    assert code == 0
    assert not psutil.pid_exists(engine.pid)


def test_killed_launcher_takes_its_engine_with_it(starter: Starter) -> None:
    """SIGKILL leaves no time to tidy up, and the port must be free for the restart."""
    with starter.running() as expert:
        engine = expert.engine_process()
        expert.process.kill()
        until(lambda: has_ended(engine), 60, "the engine has ended")
        assert has_ended(engine)


def has_ended(process: psutil.Process) -> bool:
    """Also where nobody has asked yet how it ended."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_prompt_never_stands_in_the_log(starter: Starter) -> None:
    """What a family asks its AI is nobody's business, not even the log file's."""
    with starter.running() as expert:
        expert.chat("My secret word is xylophone.", max_tokens=4)
        headers = {"Content-Type": "application/json"}
        broken = expert.client.post(CHAT, content='{"xylophone": xylophone', headers=headers)
        until(lambda: "expert_ready" in expert.said(), 60, "the launcher saw it ready")
        said = expert.said()

    assert broken.status_code >= 400
    assert "xylophone" not in said
