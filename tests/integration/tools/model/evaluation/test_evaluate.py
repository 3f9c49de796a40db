"""The tool `model.evaluate` with a scripted model, and with the real small one."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.evaluation import evaluations
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.openai_api.chat import ChatRequest
from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from hearth.service.state import StateDir
from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY, Starter

EXTENDED_INPUTS = [
    "pipecatapp/tools/model/evaluation/*",
    "hearth/models/evaluat*.py",
    "llama_expert/**",
]
EVALUATE = TOOLS["model.evaluate"]
Serve = Callable[[ASGIApp], str]
RIGHT_BLOCK = """The discount must be subtracted.

shop.py
```
<<<<<<< SEARCH
    return price + discount
=======
    return price - discount
>>>>>>> REPLACE
```
"""
NO_CHANGE = RIGHT_BLOCK.replace("price - discount", "discount + price")


def function(name: str, source: str) -> str:
    return json.dumps({"path": "shop.py", "symbol": name, "source": source})


def script(model: ScriptedModel) -> ScriptedModel:
    """Let the model do one task of each skill, and fail at the others in different ways."""

    def wants(text: str, *, schema: bool) -> Callable[[ChatRequest], bool]:
        return lambda request: (
            text in request.last_text and schema == bool(request.body().get("response_format"))
        )

    model.when("weather in Berlin").call_tool("get_weather", {"city": "berlin"})
    model.when("twelve minutes").call_tool("set_timer", {"minutes": "12"})
    model.when("Alice").say('{"name": "Alice", "age": 31, "city": "Rome"}')
    model.when("three boxes").say('{"boxes": 3, "express": true}')
    model.when("Add 19").say("It is 42.")
    model.when(wants("price + discount", schema=False)).say(RIGHT_BLOCK)
    model.when(wants("max(values)", schema=False)).say("I do not know.")
    model.when(wants("range(1, last)", schema=False)).say(RIGHT_BLOCK)
    model.when(wants("price + discount", schema=True)).say(
        function("total", "def total(price, discount):\n    return discount + price\n")
    )
    model.when(wants("max(values)", schema=True)).say(
        function("largest", "def largest(values):\n    return max(values, default=0)\n")
    )
    model.when("capital of France").say("Paris.")
    model.when("what a bee makes").say("Honey!")
    model.when("Hauptstadt von Italien").say("Rom")
    model.when("was eine Biene macht").say("The bee makes honey and nectar.")
    model.when("").say("Once upon a time there was a lighthouse.", pause=0.01)
    return model


@asynccontextmanager
async def calling(address: str, folder: Path, key: str = "k") -> AsyncIterator[Context]:
    async with ModelClient(f"{address}/v1", key) as client:
        services = {ModelClient: client, StateDir: StateDir(folder), Sandbox: Sandbox()}
        yield Context(services=services)


async def test_each_skill_is_measured_and_the_result_is_stored(
    serve: Serve, tmp_path: Path
) -> None:
    """Repairs are applied and run; a wrong answer has its reason, and the speed is counted."""
    model = script(ScriptedModel("small", key="k"))

    async with calling(serve(model.app), tmp_path) as ctx:
        result = await EVALUATE.check(ctx, {"model": "small"})

    scores = result["evaluation"]["scores"]
    assert {skill: (one["done"], one["tried"]) for skill, one in scores.items()} == {
        "tools": (1, 3), "json": (1, 3), "blocks": (1, 3), "function": (1, 3),
        "english": (1, 3), "german": (1, 3),
    }  # fmt: skip
    assert 10 < result["evaluation"]["tokens_per_second"] < 110
    reasons = {one["id"]: one["reason"] for one in result["tasks"]}
    assert reasons["tool-one"] == reasons["json-person"] == reasons["blocks-minus"] == ""
    assert reasons["tool-number"].startswith("Another call was made: [('set_timer', {'minutes':")
    assert reasons["json-sum"] == "The answer is not JSON: 'It is 42.'"
    assert reasons["blocks-empty"].startswith(
        "The change is refused: The answer does not contain an edit"
    )
    assert reasons["function-minus"] == "The check fails: 14.0"
    assert reasons["german-sentence"].startswith("The answer has none of honig")
    stored = evaluations(StateDir(tmp_path))["small"]
    assert stored.model_dump(mode="json") == result["evaluation"]
    assert all(one.body["temperature"] == 0 for one in model.requests)


async def test_model_that_does_not_answer_has_no_evaluation(serve: Serve, tmp_path: Path) -> None:
    """Zero of everything would say that the model is bad."""
    model = ScriptedModel("small", key="k")
    model.when("").refuse(503, "The machine sleeps.")

    async with calling(serve(model.app), tmp_path) as ctx:
        with pytest.raises(ToolFailed, match=r"'small' does not answer: .*The machine sleeps"):
            await EVALUATE.check(ctx, {"model": "small"})

    assert evaluations(StateDir(tmp_path)) == {}


async def test_tasks_after_the_time_are_left_out(serve: Serve, tmp_path: Path) -> None:
    """A task that was cut off says nothing about the model."""
    model = ScriptedModel("slow", key="k")
    model.when("weather in Berlin").call_tool("get_weather", {"city": "Berlin"})
    model.when("Alice").hang("{", after=1)
    model.when("").say("Once upon a time.")

    async with calling(serve(model.app), tmp_path) as ctx:
        result = await EVALUATE.check(ctx, {"model": "slow", "seconds": 10})

    assert result["evaluation"]["scores"] == {"tools": {"tried": 1, "done": 1}}
    assert [one["id"] for one in result["tasks"]] == ["tool-one"]
    assert result["evaluation"]["seconds"] < 20


@pytest.mark.extended
@pytest.mark.timeout(600)
async def test_embedded_model_writes_words_and_repairs_nothing(tmp_path: Path) -> None:
    """SmolLM2 with 135 million parameters: the documentation says that it cannot fix code."""
    models = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], models)
    with Starter("xllamacpp", tmp_path, models.root).running() as expert:
        address = str(expert.client.base_url).rstrip("/")
        async with calling(address, tmp_path, KEY) as ctx:
            result = await EVALUATE.check(ctx, {"model": FALLBACK, "seconds": 100})

    evaluation = result["evaluation"]
    assert evaluation["seconds"] < 110
    assert evaluation["tokens_per_second"] > 1
    assert evaluation["scores"]["blocks"]["tried"] >= 1
    assert evaluation["scores"]["blocks"]["done"] == 0
    assert evaluation["scores"]["english"]["done"] >= 1
