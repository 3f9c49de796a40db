"""Pydantic AI against one gateway: prints one JSON object, per interface a key per case.

The prefix `openai:` speaks `/v1/responses`, `openai-chat:` speaks `/v1/chat/completions`. Expected
results are asserted by tests/integration/gateway/clients/test_pydantic_ai.py, which wrote the
script of the model `small`; `smollm2` is the real model. Settings: OPENAI_BASE_URL, OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Literal

from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent, BinaryContent, Embedder, NativeOutput
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

PNG = base64.b64decode("iVBORw0KGgo=")
INTERFACES = {"responses": OpenAIResponsesModel, "chat": OpenAIChatModel}


class River(BaseModel):
    """A river and where it is."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]


class Cases:
    """The cases of one interface."""

    def __init__(self, interface: Any) -> None:
        self._interface = interface
        self.zones: list[str] = []

    def agent(self, model: str = "small", retries: int = 0, **fields: Any) -> Any:
        client = AsyncOpenAI(max_retries=retries, **fields.pop("key", {}))
        served = self._interface(model, provider=OpenAIProvider(openai_client=client))
        return Agent(served, instructions="Be brief.", **fields)

    async def two_turns(self) -> list[str]:
        """The second turn sends the messages of the first as the library keeps them."""
        agent = self.agent()
        first = await agent.run("good day")
        history = first.all_messages()
        second = await agent.run("good day once more", message_history=history)
        return [first.output, second.output]

    async def streamed(self) -> dict[str, Any]:
        async with self.agent("auto").run_stream("good day") as run:
            words = [word async for word in run.stream_text(delta=True, debounce_by=None)]
            return {"words": words, "output": run.usage.output_tokens}

    async def tools(self) -> dict[str, Any]:
        """Two calls at once, their results and the words after them; whole and as a stream."""

        def time_now(zone: str) -> str:
            """The time in a zone."""
            self.zones.append(zone)
            return "12:00"

        agent = self.agent(tools=[time_now])
        said = (await agent.run("what time")).output
        async with agent.run_stream("what time") as run:
            streamed = await run.get_output()
        return {"zones": sorted(self.zones), "then": said, "streamed": streamed}

    async def river(self) -> dict[str, Any]:
        """The real model, held to a schema by its grammar."""
        agent = self.agent("smollm2", output_type=NativeOutput(River))
        settings = {"max_tokens": 200, "temperature": 0}
        found: River = (await agent.run("Name a river.", model_settings=settings)).output
        return found.model_dump()

    async def picture(self) -> str:
        image = BinaryContent(PNG, media_type="image/png")
        return str((await self.agent().run(["good day", image])).output)

    async def failure(self, text: str, model: str = "small", **fields: Any) -> dict[str, Any]:
        """What a program that uses the library catches."""
        try:
            await self.agent(model, **fields).run(text)
        except ModelHTTPError as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            return {"kinds": kinds, "status": error.status_code, "message": str(error)}
        return {"kinds": []}

    async def broken(self) -> str:
        """A stream that breaks must not pass for an answer."""
        try:
            async with self.agent().run_stream("break") as run:
                return f"whole: {await run.get_output()}"
        except ModelAPIError as error:
            return str(error)

    async def abandoned(self) -> bool:
        async with self.agent().run_stream("a long story") as run:
            await anext(run.stream_text(delta=True, debounce_by=None))
            await run.cancel()
            return bool(run.cancelled)

    def all(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        return {
            "twoTurns": self.two_turns,
            "streamed": self.streamed,
            "tools": self.tools,
            "river": self.river,
            "picture": self.picture,
            "refused": lambda: self.failure("refuse"),
            "wrong": lambda: self.failure("wrong"),
            "unknownModel": lambda: self.failure("x", "smal"),
            "wrongKey": lambda: self.failure("x", key={"api_key": "sk-wrong"}),
            "broken": self.broken,
            "abandoned": self.abandoned,
        }


async def main() -> dict[str, Any]:
    results: dict[str, Any] = {"version": version("pydantic-ai-slim")}
    for name, interface in INTERFACES.items():
        results[name] = {label: await run() for label, run in Cases(interface).all().items()}
    found = await Embedder("openai:small").embed_documents(["a", "b"])
    results["embeddings"] = [len(one) for one in found.embeddings]
    return results


if __name__ == "__main__":
    json.dump(asyncio.run(main()), sys.stdout)
