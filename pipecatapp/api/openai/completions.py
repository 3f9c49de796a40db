"""`POST /v1/completions`: a run that answers one text, for clients that know no chat."""

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import Field
from starlette.responses import Response

from hearth.openai_api.chat import Message
from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.answer import TextAnswer
from pipecatapp.api.openai.chat import AgentRequest, answered
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router

router = api_router(dependencies=[Depends(known_caller)])

OneText = Annotated[list[str], Field(min_length=1, max_length=1)]


class CompletionRequest(AgentRequest):
    """A request with one prompt, which is the user's message; other fields are those of a chat."""

    prompt: str | OneText
    messages: list[Message] = Field(default_factory=list)
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    def refuse_unsupported(self) -> None:
        """Raises `Refused` (400) for what the text of a run cannot be."""
        asked: dict[str, Any] = {
            "echo": self.echo,
            "suffix": self.suffix,
            "best_of": (self.best_of or 1) > 1,
        }
        for name in (name for name, wanted in asked.items() if wanted):
            message = f"{self.model!r} takes no `{name}`; for that, ask an expert or 'auto'."
            raise Refused(400, "unsupported_field", message, param=name)

    def with_messages(self) -> "CompletionRequest":
        """Return the request with its prompt as the one message."""
        text = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return self.model_copy(update={"messages": [Message(role="user", content=text)]})


@router.post("/v1/completions")
async def complete(body: CompletionRequest, request: Request, parts: WithParts) -> Response:
    """Answer with the text of a run of the workflow of this model name."""
    body.refuse_unsupported()
    return await answered(body.with_messages(), request, parts, TextAnswer)
