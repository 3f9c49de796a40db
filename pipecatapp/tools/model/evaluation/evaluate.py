"""The tool that measures what a model can do on this machine."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, Field

from hearth.models.errors import EvaluationsInvalid
from hearth.models.evaluation import SKILLS, Evaluation, Score, Skill, store
from hearth.openai_api.assemble import Assembler
from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError
from hearth.service.ephemeral import scratch
from hearth.service.state import StateDir
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import remove
from pipecatapp.tools.code.edit.edit import edit
from pipecatapp.tools.code.testing.run_tests import run_tests
from pipecatapp.tools.model.behalf import behalf_of
from pipecatapp.tools.model.evaluation.tasks import (
    Task,
    judge_calls,
    judge_json,
    judge_text,
    tasks,
)
from pipecatapp.tools.model.llm import called_tool, request_of
from pipecatapp.workflow import BY_AUTHOR, Context, ModelFacts, ToolFailed, tool

LONGEST: Final = 300
"""Tokens of one answer."""
SPEED: Final = "Tell a story about a lighthouse in about a hundred words."
SPEED_TOKENS: Final = 96
CHECK_SECONDS: Final = 20


class TaskResult(BaseModel):
    """What became of one task."""

    id: str
    skill: Skill
    done: bool
    reason: str = Field(description="Why it was not done; empty if it was.")
    seconds: float


class Evaluated(BaseModel):
    """What the model can do."""

    evaluation: Evaluation = Field(
        description="Model, time, seconds, tokens_per_second and, by skill, tasks tried and done."
    )
    tasks: list[TaskResult] = Field(description="Id, skill, done, reason and seconds of each task.")


@dataclass(frozen=True)
class Reply:
    """An answer of the model and its speed."""

    text: str
    calls: list[tuple[str, Any]]
    tokens: int
    writing: float
    """Seconds from the first to the last token."""


@tool("model.evaluate", effect="external", version=1, idempotent=True, approve="never")
async def evaluate(
    ctx: Context,
    model: Annotated[str, BY_AUTHOR, Field(description="The model that is measured.")] = "auto",
    seconds: Annotated[
        float, BY_AUTHOR, Field(description="Time for all tasks; later ones are left out.",
                                ge=10, le=300)
    ] = 300.0,
) -> Evaluated:  # fmt: skip
    """Measure what a model can do here, and store the result for this instance.

    18 tasks with one right answer each: call tools, fill in JSON, repair code in both edit formats,
    answer in English and German. Repairs are applied and run in the sandbox.
    """
    facts = cast("ModelFacts", ctx.services.get(ModelFacts, ModelFacts()))
    began = time.monotonic()
    speed = await _speed(ctx, model, seconds)
    results: list[TaskResult] = []
    for task in tasks():
        left = began + seconds - time.monotonic()
        result = await _result(ctx, model, task, left) if left > 0 else None
        if result is None:
            break
        results.append(result)
        await ctx.say(f"{task.id}: {result.reason or 'done'}\n")
    evaluation = Evaluation(
        model=facts.served(model),
        at=datetime.now(UTC),
        seconds=time.monotonic() - began,
        tokens_per_second=speed,
        scores=_scores(results),
    )
    try:
        await asyncio.to_thread(store, ctx.service(StateDir), evaluation)
    except (EvaluationsInvalid, OSError) as error:
        raise ToolFailed(f"The result cannot be stored: {error}") from error
    return Evaluated(evaluation=evaluation, tasks=results)


def _scores(results: Iterable[TaskResult]) -> dict[Skill, Score]:
    tried, done = Counter[Skill](), Counter[Skill]()
    for one in results:
        tried[one.skill] += 1
        done[one.skill] += one.done
    return {skill: Score(tried=tried[skill], done=done[skill]) for skill in SKILLS if tried[skill]}


async def _speed(ctx: Context, model: str, seconds: float) -> float | None:
    """Return the tokens that the model writes in a second.

    Raises `ToolFailed` for a model that does not answer at all, or not in time.
    """
    task = Task("speed", "english", SPEED, None)
    try:
        async with asyncio.timeout(seconds):
            reply = await _reply(ctx, model, task, SPEED_TOKENS)
    except ModelError as error:
        raise ToolFailed(f"Model {model!r} does not answer: {error}") from error
    except TimeoutError:
        raise ToolFailed(f"Model {model!r} wrote nothing in {seconds:g} seconds.") from None
    return (reply.tokens - 1) / reply.writing if reply.tokens > 1 and reply.writing > 0 else None


async def _result(ctx: Context, model: str, task: Task, left: float) -> TaskResult | None:
    """Try one task; None if the time was over before its end."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(left):
            reason = await _judged(ctx, task, await _reply(ctx, model, task, LONGEST))
    except TimeoutError:
        return None
    except (ModelError, ToolFailed) as error:
        reason = str(error)
    return TaskResult(
        id=task.id, skill=task.skill, done=not reason, reason=reason,
        seconds=time.monotonic() - began,
    )  # fmt: skip


async def _judged(ctx: Context, task: Task, reply: Reply) -> str:
    """Return why the answer is not right; empty if it is."""
    if task.tools:
        return judge_calls(task, reply.calls, reply.text)
    if task.files:
        return await _repaired(ctx, task, reply.text)
    return judge_json(task, reply.text) if task.schema else judge_text(task, reply.text)


async def _repaired(ctx: Context, task: Task, text: str) -> str:
    """Apply a change and run the check. Raises `ToolFailed` where nothing can be run."""
    answer: Any = text
    if task.schema:
        try:
            answer = json.loads(text)
        except ValueError:
            return f"The answer is not JSON: {text[:100]!r}"
    guard.watch()
    with scratch(f"{guard.mark}-evaluate", remove) as folder:
        for name, content in task.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        return await _checked(replace(ctx, workspace=folder, where="local"), folder, answer)


async def _checked(ctx: Context, folder: Path, answer: Any) -> str:
    edited = await edit.check(ctx, {"answer": answer, "protected": ["check.py"]})
    if not edited["applied"]:
        return f"The change is refused: {edited['hint'][:200]}"
    command = {"command": ["python3", "check.py"], "seconds": CHECK_SECONDS}
    tested = await run_tests.check(ctx, command)
    return "" if tested["ok"] else f"The check fails: {tested['error']['message'][:200]}"


async def _reply(ctx: Context, model: str, task: Task, tokens: int) -> Reply:
    """Ask the model at temperature 0. Raises `ModelError`."""
    system = [{"role": "system", "content": task.system}] if task.system else []
    schema = {"name": "answer", "schema": task.schema, "strict": True}
    request = request_of(
        [*system, {"role": "user", "content": task.text}], model, list(task.tools), 0.0, tokens,
        response_format={"type": "json_schema", "json_schema": schema} if task.schema else None,
    )  # fmt: skip
    whole, first, last = Assembler(), 0.0, 0.0
    async with ctx.service(ModelClient).stream(request, headers=behalf_of(ctx)) as chunks:
        async for chunk in chunks:
            whole.add(chunk.body())
            if chunk.text:
                last = time.monotonic()
                first = first or last
    completion = whole.completion()
    choices = completion["choices"]
    message = choices[0].get("message", {}) if choices else {}
    calls = [called_tool(call) for call in message.get("tool_calls") or []]
    return Reply(
        text=message.get("content") or "",
        calls=[(call.name, call.arguments) for call in calls],
        tokens=(completion.get("usage") or {}).get("completion_tokens") or whole.tokens(),
        writing=last - first,
    )
