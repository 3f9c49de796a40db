"""The runs of one conversation by voice."""

from dataclasses import dataclass, field
from typing import Final

from hearth.openai_api.chat import Message
from hearth.service.http_errors import Refused
from pipecatapp.api.openai.chat import AgentRequest, inputs_for
from pipecatapp.api.openai.offers import workflow_for
from pipecatapp.api.parts import Parts
from pipecatapp.application.engine import (
    Engine,
    InvalidDocument,
    InvalidInputs,
    Listener,
    RunResult,
    UnknownWorkflow,
)
from pipecatapp.application.registry import AGENT, EXPERT, asking
from pipecatapp.application.retention import remove, timed
from pipecatapp.application.runs import Document
from pipecatapp.voice.talk import RunFailed

KEPT: Final = "voice"
UNKEPT: Final = "voice, not kept"
"""Caller of a run that is deleted at the end of its conversation."""


@dataclass(frozen=True)
class Runner:
    """Starts a run for each turn; where nothing is to be kept, `forget` removes them all."""

    parts: Parts
    keeps: bool = True
    started: list[str] = field(default_factory=list)

    async def start(self, text: str, conversation: str, listener: Listener, model: str) -> str:
        """Raises `RunFailed` for a model that is not there."""
        try:
            return await self._start(text, conversation, listener, model)
        except Refused as error:
            raise RunFailed(f"{model}: {error.code}") from error
        except (InvalidDocument, InvalidInputs, UnknownWorkflow) as error:
            raise RunFailed(f"{model}: {type(error).__name__}") from error

    async def _start(self, text: str, conversation: str, listener: Listener, model: str) -> str:
        expert = model.removeprefix(EXPERT) if model.startswith(EXPERT) else None
        name = AGENT if expert else model
        workflow = workflow_for(self.parts.runs.engine.workflows, name)
        said = Message.model_validate({"role": "user", "content": text})
        body = AgentRequest(model=name, messages=[said], conversation=conversation)
        document = Document(workflow=workflow.id, layers=[asking(expert)] if expert else [])
        document, inputs = self.parts.home.turn(document, inputs_for(workflow, body), text)
        run = await self.parts.runs.start(
            document,
            inputs,
            conversation=conversation,
            caller=KEPT if self.keeps else UNKEPT,
            listener=listener,
        )
        self.started.append(run)
        return run

    async def wait(self, run: str) -> RunResult:
        return await self.parts.runs.engine.wait(run)

    async def cancel(self, run: str) -> None:
        await self.parts.runs.engine.cancel(run)

    async def timed(self, run: str, stages: dict[str, float]) -> None:
        """Keep with a run where the time of its turn went."""
        await timed(self.parts.runs.engine, run, stages)

    async def forget(self) -> None:
        """The conversation is over."""
        if not self.keeps:
            await forget(self.parts.runs.engine, self.started)


async def forget(engine: Engine, runs: list[str]) -> None:
    """Remove runs, with all that was said in them; those under way are stopped first."""
    for run in runs:
        if engine.ledger.read.run(run) is not None:  # somebody may have pruned it meanwhile
            await engine.cancel(run)
            await engine.wait(run)
    await remove(engine, runs)


async def forget_left(parts: Parts) -> None:
    """Remove what a stop in the middle of a conversation left of one that is not kept."""
    reader = parts.runs.engine.ledger.read
    left = reader.rows("SELECT id FROM run WHERE caller = ?", (UNKEPT,))
    await remove(parts.runs.engine, [row["id"] for row in left])
