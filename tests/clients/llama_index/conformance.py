"""LlamaIndex against one gateway: prints one JSON object, per interface a key per case.

`OpenAILike` speaks `/v1/chat/completions`, `OpenAILikeResponses` speaks `/v1/responses`. Expected
results are asserted by tests/integration/gateway/clients/test_llama_index.py, which wrote the
script of the model `small`; `smollm2` is the real model. Settings: OPENAI_API_BASE, OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import base64
import gc
import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal

import openai
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike, OpenAILikeResponses
from pydantic import BaseModel, Field

PNG = base64.b64decode("iVBORw0KGgo=")
INTERFACES = {"chat": OpenAILike, "responses": OpenAILikeResponses}


class River(BaseModel):
    """A river and where it is."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def time_now(zone: str) -> str:
    """The time in a zone."""
    return f"12:00 in {zone}"


class Cases:
    """The cases of one interface."""

    def __init__(self, interface: Any) -> None:
        self._interface = interface

    def llm(self, model: str = "small", retries: int = 0, **fields: Any) -> Any:
        settings: dict[str, Any] = {
            "api_base": os.environ["OPENAI_API_BASE"],
            "is_chat_model": True,
            "is_function_calling_model": True,
            **fields,
        }
        return self._interface(model=model, max_retries=retries, **settings)

    def two_turns(self) -> list[str]:
        """The second turn sends the message of the first as the library keeps it."""
        llm = self.llm()
        first = llm.chat([said("good day")])
        second = llm.chat([said("good day"), first.message, said("good day once more")])
        return [first.message.content, second.message.content]

    def streamed(self) -> list[str]:
        return [one.delta for one in self.llm("auto").stream_chat([said("good day")]) if one.delta]

    def tools(self) -> dict[str, Any]:
        """Two calls at once, their results, and what the model makes of them."""
        llm, tool = self.llm(), FunctionTool.from_defaults(time_now)
        asked = said("what time")
        answer = llm.chat_with_tools([tool], chat_history=[asked], allow_parallel_tool_calls=True)
        calls = llm.get_tool_calls_from_response(answer)
        results = [
            ChatMessage(
                role="tool", content=tool(**call.tool_kwargs).content,
                additional_kwargs={"tool_call_id": call.tool_id},
            )
            for call in calls
        ]  # fmt: skip
        then = llm.chat_with_tools([tool], chat_history=[asked, answer.message, *results])
        *_, streamed = llm.stream_chat_with_tools(
            [tool], chat_history=[asked], allow_parallel_tool_calls=True
        )
        again = llm.get_tool_calls_from_response(streamed)
        return {
            "calls": [call.tool_kwargs for call in calls],
            "streamed": [call.tool_kwargs for call in again],
            "then": then.message.content,
        }

    def river(self) -> dict[str, Any]:
        """The real model, held to a schema by its grammar."""
        llm = self.llm(
            "smollm2", is_function_calling_model=False, should_use_structured_outputs=True,
            temperature=0, max_tokens=200,
        )  # fmt: skip
        found: River = llm.structured_predict(River, PromptTemplate("Name a river."))
        return found.model_dump()

    def picture(self) -> str:
        blocks = [TextBlock(text="good day"), ImageBlock(image=PNG, image_mimetype="image/png")]
        return str(self.llm().chat([ChatMessage(role="user", blocks=blocks)]).message.content)

    def failure(self, text: str, model: str = "small", **fields: Any) -> dict[str, Any]:
        """What a program that uses the library catches."""
        try:
            self.llm(model, **fields).chat([said(text)])
        except openai.APIStatusError as error:
            return {"kind": type(error).__name__, "message": error.message}
        return {"kind": "none"}

    def broken(self) -> str:
        """A stream that breaks must not pass for an answer."""
        try:
            return f"whole: {list(self.llm().stream_chat([said('break')]))}"
        except openai.APIError as error:
            return error.message

    def abandoned(self) -> bool:
        stream = self.llm().stream_chat([said("a long story")])
        next(one for one in stream if one.delta)
        stream.close()
        gc.collect()  # The library does not close the connection; a reference cycle holds it.
        return True

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "twoTurns": self.two_turns,
            "streamed": self.streamed,
            "tools": self.tools,
            "river": self.river,
            "picture": self.picture,
            "retried": lambda: self.llm(retries=2).chat([said("later")]).message.content,
            "refused": lambda: self.failure("refuse"),
            "wrong": lambda: self.failure("wrong"),
            "unknownModel": lambda: self.failure("x", "smal"),
            "wrongKey": lambda: self.failure("x", api_key="sk-wrong"),
            "broken": self.broken,
            "abandoned": self.abandoned,
        }


if __name__ == "__main__":
    results: dict[str, Any] = {"version": version("llama-index-llms-openai-like")}
    for name, interface in INTERFACES.items():
        results[name] = {label: run() for label, run in Cases(interface).all().items()}
    results["completion"] = (
        OpenAILike(model="small", api_base=os.environ["OPENAI_API_BASE"]).complete("good day").text
    )
    json.dump(results, sys.stdout)
