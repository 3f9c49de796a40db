"""Which model is asked: roles, requirements, those that stand in, and what they cost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from hearth.openai_api.chat import ChatRequest
from tests.integration.agent.conftest import House

HOME: dict[str, Any] = {
    "healthy": True,
    "tools": "native",
    "instances": [{"url": "http://10.0.0.7:81", "healthy": True}],
}
AWAY = {**HOME, "instances": [{"url": "https://api.example.com/v1", "healthy": True}]}
EXPERTS: list[dict[str, Any]] = [
    {**HOME, "name": "small", "cost": 0.5, "context": 4096, "tools": "none"},
    {**HOME, "name": "big", "cost": 4.0, "context": 32768, "vision": True},
    {**AWAY, "name": "hosted", "cost": 20.0, "context": 200000, "vision": True, "embeddings": True},
]
Json = dict[str, Any]


def for_model(name: str) -> Callable[[ChatRequest], bool]:
    return lambda request: request.model == name


@contextmanager
def at_home(house: House, **settings: Any) -> Iterator[httpx2.Client]:
    """The service with four experts, of which three answer with their name."""
    masked = {**HOME, "name": "masked"}
    house.model.experts = [*EXPERTS, masked]
    house.more = settings
    for name in ("small", "big", "hosted"):
        house.model.when(for_model(name)).say(f"I am {name}.")
    with house.running(), house.client() as client:
        yield client


def ran(client: httpx2.Client, document: str, **inputs: Any) -> Json:
    """A run at its end."""
    started = client.post("/api/runs", json={"document": document, "inputs": inputs})
    run = started.raise_for_status().json()["run"]
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        events.read()
    view: Json = client.get(f"/api/runs/{run}").json()
    return view


def asked(model: str, more: str = "") -> str:
    return f"""
id: asked
{more}
steps: [{{id: reply, use: llm, model: {model}, with: {{text: hello}}}}]
outputs: {{text: "{{{{ reply.text }}}}"}}
"""


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("small", "small"),
        ("coder", "big"),
        ("[hosted, small]", "hosted"),
        ("{use: [hosted, small], privacy: local}", "small"),
        ("{use: [small, big], needs: [vision]}", "big"),
        ("{use: [small, big], needs: [tools]}", "big"),
        ("{use: [big, hosted, small], needs: [embeddings]}", "hosted"),
        ("{use: [small, big], context: 8000}", "big"),
        ("{use: [hosted, big, small], max_cost: 1}", "small"),
        ("{use: auto, needs: [vision], privacy: local}", "big"),
        ("thrifty", "small"),
        ("\"{{ 'big' if run.request == '' else 'small' }}\"", "big"),
    ],
)
def test_first_model_that_fits_is_asked(empty_house: House, model: str, said: str) -> None:
    """Who writes `privacy: local` or a price must not have to know the machines."""
    roles = {
        "default": "auto",
        "coder": ["big", "small"],
        "thrifty": {"use": ["hosted", "coder"], "max_cost": 1},
    }
    with at_home(empty_house, model_roles=roles) as client:
        view = ran(client, asked(model))

    assert view["error"] is None
    assert view["outputs"]["text"] == f"I am {said}."
    assert view["steps"][0]["model"] == said


@pytest.mark.proves("003-18")
@pytest.mark.parametrize("model", ["hosted", "nobody-knows", "masked"])
def test_model_of_other_people_is_refused_where_only_local_ones_are_wanted(
    empty_house: House, model: str
) -> None:
    """What must stay at home stays at home, also when nobody knows where a model is."""
    with at_home(empty_house, hosted_models=["masked"]) as client:
        view = ran(client, asked(f"{{use: {model}, privacy: local}}"))

    assert view["status"] == "failed"
    assert f"no model fits ({model}:" in view["error"]
    assert empty_house.model.requests == []


def test_model_that_cannot_answer_is_stood_in_for_and_the_run_says_so(empty_house: House) -> None:
    """A machine that is off is no reason to fail; that another model answered must be seen."""
    empty_house.model.when(for_model("big")).refuse(503, "The machine sleeps.")
    with at_home(empty_house, model_roles={"default": ["big", "small"]}) as client:
        plain = ran(client, asked("default"))
        agent = ran(client, asked("default").replace("use: llm", "use: agent"))

    for view in (plain, agent):
        step = view["steps"][-1]
        assert view["outputs"]["text"] == "I am small."
        assert step["model"] == "small"
        (instead,) = step["facts"]["instead_of"]
        assert instead["model"] == "big"
        assert "The machine sleeps." in instead["because"]


def test_model_that_has_begun_to_speak_is_not_stood_in_for(empty_house: House) -> None:
    """Half of one answer and a whole other one would be read as one text."""
    empty_house.model.when(for_model("big")).lose("I am very big indeed.", after=2)
    with at_home(empty_house, model_roles={"default": ["big", "small"]}) as client:
        view = ran(client, asked("default"))

    assert view["status"] == "failed"
    assert [one.body["model"] for one in empty_house.model.requests] == ["big"]


@pytest.mark.proves("001-38")
def test_each_visit_of_a_loop_may_ask_a_bigger_model(empty_house: House) -> None:
    """The small model tries first; only what it cannot do is worth the big one."""
    document = """
id: rising
steps:
  - id: tries
    until: "{{ loop.index == 3 }}"
    max: 5
    steps:
      - id: attempt
        use: llm
        model: {escalate: [small, small, big]}
        with: {text: "Try {{ loop.index }}."}
  - {id: repair, use: llm, model: "{{ 'big' if tries.count > 3 else 'small' }}", with: {text: x}}
outputs:
  said: "{{ tries.all | map(attribute='attempt') | map(attribute='text') | list }}"
  last: "{{ repair.text }}"
"""
    with at_home(empty_house) as client:
        view = ran(client, document)

    assert view["error"] is None
    assert view["outputs"] == {
        "said": ["I am small.", "I am small.", "I am big.", "I am big."],
        "last": "I am big.",
    }


@pytest.mark.proves("000-32")
@pytest.mark.proves("001-36")
def test_each_node_asks_its_own_model_in_its_own_way(empty_house: House) -> None:
    """One model for the plan, another for the words; the last one's settings are not everyone's."""
    document = """
id: both
steps:
  - {id: plan, use: llm, model: big, with: {text: Plan., temperature: 0.1, max_tokens: 50}}
  - {id: words, use: llm, model: small, with: {text: Write., temperature: 1.2}}
"""
    with at_home(empty_house) as client:
        ran(client, document)

    assert [
        (one.body["model"], one.body["temperature"], one.body.get("max_tokens"))
        for one in empty_house.model.requests
    ] == [("big", 0.1, 50), ("small", 1.2, None)]


@pytest.mark.proves("001-37")
def test_broken_json_goes_to_the_small_model(empty_house: House) -> None:
    """A missing bracket is not worth the big model's time, nor its whole conversation again."""
    big = empty_house.model.when(for_model("big"))
    big.say('{"title": "Snow"').say("never asked")
    empty_house.model.when(for_model("small")).say('{"title": "Snow"}')
    document = """
id: typed
steps:
  - id: data
    use: llm.json
    model: coder
    with: {messages: [{role: user, content: A long story about snow.}], returns: {title: text}}
outputs: {title: "{{ data.value.title }}"}
"""
    with at_home(empty_house, model_roles={"coder": "big", "repair": "small"}) as client:
        view = ran(client, document)

    assert view["outputs"] == {"title": "Snow"}
    assert [one.body["model"] for one in empty_house.model.requests] == ["big", "small"]
    mended = str(empty_house.model.requests[1].body["messages"])
    assert '{"title": "Snow"' in mended
    assert "A long story" not in mended


def test_run_ends_where_its_cost_would_go_beyond_its_limit(empty_house: House) -> None:
    """A loop over a model of other people is stopped by a sum, not by a surprise."""
    document = """
id: dear
limits: {cost: 100}
steps:
  - id: each
    for: "{{ [1, 2, 3, 4, 5] }}"
    use: llm
    model: [hosted]
    with: {text: "Number {{ item }}."}
"""
    with at_home(empty_house) as client:
        view = ran(client, document)

    done = [step for step in view["steps"] if step["status"] == "done"]
    assert view["status"] == "failed"
    assert "limits.cost is 100" in view["error"]
    assert [step["tokens"]["cost"] for step in done] == [
        20 * (step["tokens"]["prompt"] + step["tokens"]["completion"]) for step in done
    ]
    assert len(empty_house.model.requests) < 5


def test_plan_says_who_is_asked(empty_house: House) -> None:
    """What a run would send elsewhere is to be seen before it does."""
    with at_home(empty_house, model_roles={"default": ["big", "small"]}) as client:
        body = {"document": asked("{use: default, privacy: local}")}
        text = client.post("/api/plan", json=body).json()["text"]

    assert "model big or small (role default); at home" in text
