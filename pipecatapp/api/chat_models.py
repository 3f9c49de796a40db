"""`GET /api/chat/models`: what can answer in a conversation."""

from fastapi import Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.offers import offered
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.registry import AGENT_WORKFLOW, EXPERT, PREFIX

router = api_router("/api/chat/models", dependencies=[Depends(known_caller)])

SETTINGS = ("temperature", "max_tokens", "system")


class ChatModel(BaseModel):
    """A model of the chat: `id` is its name in a turn, `about` its description, `settings` its
    options."""

    id: str
    about: str
    settings: list[str]


class ChatModels(BaseModel):
    models: list[ChatModel]


@router.get("")
async def list_chat_models(parts: WithParts) -> ChatModels:
    """The agent, the agent with each healthy expert, and the workflows that hold conversations."""
    return ChatModels(models=await chat_models(parts))


async def chat_models(parts: Parts) -> list[ChatModel]:
    """Models that a person can choose for a conversation; the agent is the first one."""
    workflows = offered(parts.runs.engine.workflows)
    takes = {
        name: [field for field in SETTINGS if field in workflow.input_schema()["properties"]]
        for name, workflow in workflows.items()
    }
    agent, *others = workflows
    experts = [
        ChatModel(id=f"{EXPERT}{one.name}", about=one.model or one.name, settings=takes[agent])
        for one in await parts.directory.experts()
        if one.healthy and not one.embeddings
    ]
    own = f"{PREFIX}{AGENT_WORKFLOW}"
    return [
        ChatModel(id=agent, about="Agent", settings=takes[agent]),
        *experts,
        *(
            ChatModel(id=name, about=name.removeprefix(PREFIX), settings=takes[name])
            for name in others
            if name != own
        ),
    ]
