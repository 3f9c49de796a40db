"""Start a turn of a conversation: its message, its attachments and its settings as a run."""

from collections.abc import Sequence
from typing import Any, Final, Self

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hearth.openai_api.chat import Message
from hearth.service.http_errors import Refused
from pipecatapp.api.openai.chat import AgentRequest, start
from pipecatapp.api.openai.offers import workflow_for
from pipecatapp.api.parts import Parts
from pipecatapp.application.conversations import ConversationSettings
from pipecatapp.application.registry import AGENT, EXPERT, asking
from pipecatapp.application.turns import (
    MOST,
    Attachment,
    TooLong,
    asked_models,
    block,
    check_room,
    parts_of,
    sees_images,
)

LARGEST: Final = 6_000_000
"""Characters of all attachments of a message together."""


class NewTurn(BaseModel):
    """A person's message with files and images, and the settings of its answer.

    `model` is the agent, a workflow, or `expert/` and the name of an expert that the agent asks.
    `settings` are those of the conversation from now on; without them its own are used.
    `instead_of` is the run of a turn that this one is another version of: with a text an edited
    question, without one the same question again; its attachments are kept unless others are given.
    """

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, min_length=1)
    attachments: list[Attachment] | None = Field(None, max_length=MOST)
    model: str | None = Field(None, min_length=1, max_length=200)
    settings: ConversationSettings | None = None
    instead_of: str | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.text or self.attachments or self.instead_of):
            raise ValueError("send a text, an attachment, or the turn to answer again")
        sizes = [len(one.text or one.image or "") for one in self.attachments or ()]
        if sum(sizes) > LARGEST:
            raise ValueError(f"the attachments have more than {LARGEST} characters together")
        return self


async def start_turn(
    conversation: str, body: NewTurn, request: Request, parts: Parts, owner: str
) -> str:
    """Start the run that answers, and return its id; save the settings that came with it.

    Raises `Refused` (400) for images that the model does not read, and for more text than its
    context holds; what `start` and `ConversationService.message` raise.
    """
    service = parts.conversations
    text, attachments = body.text, body.attachments
    if body.instead_of is not None:
        said, attached = service.message(conversation, body.instead_of, owner=owner)
        text = said if text is None else text
        attachments = attached if attachments is None else attachments
    attachments = attachments or []
    text = text or ", ".join(one.name for one in attachments)
    chosen = body.settings or service.settings(conversation, owner=owner)
    asked, more, layers = _request(body, text, attachments, chosen, conversation, parts)
    run = await start(asked, request, parts, instead_of=body.instead_of, more=more, layers=layers)
    if body.settings is not None:
        await service.change(conversation, settings=body.settings, owner=owner)
    return run


def _request(
    body: NewTurn,
    text: str,
    attachments: Sequence[Attachment],
    chosen: ConversationSettings,
    conversation: str,
    parts: Parts,
) -> tuple[AgentRequest, dict[str, Any], list[str]]:
    """The request, the inputs beside it, and the layers of the workflow."""
    model = body.model or chosen.model or AGENT
    expert = model.removeprefix(EXPERT) if model.startswith(EXPERT) else None
    name = AGENT if expert else model
    engine = parts.runs.engine
    workflow = workflow_for(engine.workflows, name)
    takes = workflow.input_schema().get("properties", {})
    asked_of = [expert] if expert else asked_models(engine, workflow.id)
    images = [one for one in attachments if one.text is None]
    if images and not ("parts" in takes and sees_images(engine.facts, asked_of)):
        reason = f"{model!r} cannot read images. Choose a model that can, or remove the image."
        raise Refused(400, "no_vision", reason, param="attachments")
    files = [block(one.name, one.text) for one in attachments if one.text is not None]
    try:
        check_room(engine.facts, asked_of, [text, *files], len(images))
    except TooLong as error:
        raise Refused(400, "attachments_too_long", str(error), param="attachments") from error
    more: dict[str, Any] = {"system": chosen.system} if chosen.system and "system" in takes else {}
    if "parts" in takes:
        more |= {"parts": parts_of(body.text or text, attachments)} if attachments else {}
    else:
        text = "\n\n".join([text, *files])
    said = Message.model_validate({"role": "user", "content": text})
    asked = AgentRequest(
        model=name,
        messages=[said],
        conversation=conversation,
        temperature=chosen.temperature,
        max_tokens=chosen.max_tokens,
    )
    return asked, more, [asking(expert)] if expert else []
