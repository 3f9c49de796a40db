"""Requests and answers of `POST /v1/chat/completions` as JSON objects.

Unknown fields are kept and passed on: servers and clients add their own.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["system", "developer", "user", "assistant", "tool"]


class Wire(BaseModel):
    """A message of the protocol; both sides may add fields."""

    model_config = ConfigDict(extra="allow")

    def body(self) -> dict[str, Any]:
        """Return the JSON object to send, without empty fields."""
        return self.model_dump(mode="json", exclude_none=True)


class FunctionCall(Wire):
    """The function that a model wants called; `arguments` is JSON, as the model wrote it."""

    name: str
    arguments: str = "{}"


class ToolCall(Wire):
    """A tool call that a model requests; the answer refers to its `id`."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class Function(Wire):
    """A function that a model may call; `parameters` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class ToolSpec(Wire):
    """One entry of a request's `tools`."""

    type: Literal["function"] = "function"
    function: Function


class Message(Wire):
    """One turn. `content` is text, or a list of parts (`{"type": "text", "text": …}`, images …)."""

    role: Role
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None

    @property
    def text(self) -> str:
        """All the text of the turn; parts that are not text are left out."""
        if isinstance(self.content, list):
            texts = [part.get("text") for part in self.content if part.get("type") == "text"]
            return "".join(text for text in texts if isinstance(text, str))
        return self.content or ""


class StreamOptions(Wire):
    """`include_usage` requests one more chunk, without choices, with the usage."""

    include_usage: bool | None = None


class ChatRequest(Wire):
    """A chat request; fields that are not declared here are kept and passed on."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def last_text(self) -> str:
        """The text of the last message, of any role."""
        return self.messages[-1].text if self.messages else ""

    @property
    def last_user_text(self) -> str:
        """The text of the last message that the user wrote."""
        return next((m.text for m in reversed(self.messages) if m.role == "user"), "")


class Usage(Wire):
    """The tokens of one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class FunctionDelta(Wire):
    """A part of a function call: the name is sent once, the arguments in parts."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(Wire):
    """A part of the tool call number `index`; its `id` is in the first part."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta | None = None


class Delta(Wire):
    """The addition of one chunk to the message."""

    role: Role | None = None
    content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    reasoning_content: str | None = None


class Choice(Wire):
    """One chunk's addition to the answer number `index`."""

    index: int = 0
    delta: Delta
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class Chunk(Wire):
    """One event of a streamed answer. The usage chunk has no choices."""

    id: str = ""
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int = 0
    model: str = ""
    choices: list[Choice] = Field(default_factory=list)
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """The text that this chunk adds to the first answer."""
        return "".join(c.delta.content or "" for c in self.choices if c.index == 0)


class CompletionChoice(Wire):
    """One whole answer."""

    index: int = 0
    message: Message
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class Completion(Wire):
    """A whole answer, not streamed."""

    id: str = ""
    object: Literal["chat.completion"] = "chat.completion"
    created: int = 0
    model: str = ""
    choices: list[CompletionChoice]
    usage: Usage | None = None

    @property
    def message(self) -> Message:
        """The first answer."""
        return self.choices[0].message
