"""OpenAI's Agents SDK against one gateway: prints one JSON object, per interface a key per case.

The SDK speaks `/v1/responses` by default and `/v1/chat/completions` on request. Expected results
are asserted by tests/integration/gateway/clients/test_openai_agents.py, which wrote the script of
the model `small`; `smollm2` is the real model. Settings: OPENAI_BASE_URL, OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found,untyped-decorator"

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Literal

import openai
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel, Field

PNG = "iVBORw0KGgo="
INTERFACES = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


class River(BaseModel):
    """A river and where it is."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]


class Cases:
    """The cases of one interface."""

    def __init__(self, interface: Any) -> None:
        self._interface = interface
        self.zones: list[str] = []

    def agent(self, model: str = "small", **fields: Any) -> Agent[Any]:
        client = openai.AsyncOpenAI(max_retries=fields.pop("retries", 0), **fields.pop("key", {}))
        served = self._interface(model=model, openai_client=client)
        return Agent(name="Home", instructions="Be brief.", model=served, **fields)

    def clock(self) -> Any:
        """A tool that records the zones that the model asked for."""

        @function_tool
        def time_now(zone: str) -> str:
            """The time in a zone."""
            self.zones.append(zone)
            return "12:00"

        return time_now

    async def two_turns(self) -> list[str]:
        """The second turn sends the items of the first as the SDK keeps them."""
        agent = self.agent()
        first = await Runner.run(agent, "good day")
        more: Any = [*first.to_input_list(), {"role": "user", "content": "good day once more"}]
        return [first.final_output, (await Runner.run(agent, more)).final_output]

    async def streamed(self) -> dict[str, Any]:
        settings = ModelSettings(include_usage=True)
        run = Runner.run_streamed(self.agent("auto", model_settings=settings), "good day")
        words = [
            event.data.delta
            async for event in run.stream_events()
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
        ]
        return {"words": words, "output": run.context_wrapper.usage.output_tokens}

    async def tools(self) -> dict[str, Any]:
        """Two calls at once, their results and the words after them; whole and as a stream."""
        agent = self.agent(tools=[self.clock()])
        said = (await Runner.run(agent, "what time")).final_output
        run = Runner.run_streamed(agent, "what time")
        async for _ in run.stream_events():
            pass
        return {"zones": self.zones, "then": said, "streamed": run.final_output}

    async def river(self) -> dict[str, Any]:
        """The real model, held to a schema by its grammar."""
        settings = ModelSettings(max_tokens=200, temperature=0)
        agent = self.agent("smollm2", output_type=River, model_settings=settings)
        found: River = (await Runner.run(agent, "Name a river.")).final_output
        return found.model_dump()

    async def picture(self) -> str:
        parts = [
            {"type": "input_text", "text": "good day"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        ]
        asked: Any = [{"role": "user", "content": parts}]
        return str((await Runner.run(self.agent(), asked)).final_output)

    async def failure(self, text: str, model: str = "small", **fields: Any) -> dict[str, Any]:
        """What a program that uses the SDK catches."""
        try:
            await Runner.run(self.agent(model, **fields), text)
        except openai.APIStatusError as error:
            kind = type(error).__name__
            return {"kind": kind, "status": error.status_code, "message": error.message}
        return {"kind": "none"}

    async def broken(self) -> str:
        """A stream that breaks must not pass for an answer."""
        run = Runner.run_streamed(self.agent(), "break")
        try:
            async for _ in run.stream_events():
                pass
        except (openai.APIError, ModelBehaviorError) as error:
            return error.message
        return f"whole: {run.final_output}"

    async def abandoned(self) -> bool:
        run = Runner.run_streamed(self.agent(), "a long story")
        async for event in run.stream_events():
            if event.type == "raw_response_event" and isinstance(
                event.data, ResponseTextDeltaEvent
            ):
                run.cancel()
        return bool(run.is_complete)

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
    results: dict[str, Any] = {"version": version("openai-agents")}
    for name, interface in INTERFACES.items():
        results[name] = {label: await run() for label, run in Cases(interface).all().items()}
    return results


if __name__ == "__main__":
    set_tracing_disabled(True)  # Traces would go to OpenAI.
    json.dump(asyncio.run(main()), sys.stdout)
