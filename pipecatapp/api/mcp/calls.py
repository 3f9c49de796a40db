"""Calls of MCP clients as runs."""

import json
from contextlib import aclosing
from typing import Any, Final

import anyio
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from pipecatapp.api.mcp.callers import McpCaller
from pipecatapp.api.mcp.offered import OWN_TOOLS, document_for, missing, unknown_inputs
from pipecatapp.api.mcp.questions import (
    ANSWER,
    Asked,
    Ctx,
    can_ask,
    form_of,
    is_modern,
    read_state,
    required,
    value_of,
)
from pipecatapp.api.parts import Parts
from pipecatapp.application.callers import kept
from pipecatapp.application.engine import (
    Event,
    InvalidDocument,
    InvalidInputs,
    LedgerFailed,
    NotAsked,
    UnknownRun,
    UnknownWorkflow,
    WrongAnswer,
)
from pipecatapp.application.runs import Document, question_text

RUN: Final = "hearth/run"
"""The key of a result's `_meta` that names the run."""
REFUSED: Final = (InvalidDocument, InvalidInputs, LedgerFailed)
ANSWERED_BY: Final = "mcp"
DECLINED: Final = "The person declined to answer, so the run was stopped."

Result = CallToolResult | InputRequiredResult


class Calls:
    """Starts runs for clients, asks their questions and returns their outputs.

    A failure is an error of the tool, so that a model can read it. If the client abandons the call,
    the run is cancelled.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def call(self, ctx: Ctx, caller: McpCaller, params: CallToolRequestParams) -> Result:
        """Run a workflow or a tool, or continue one with the answer to its question."""
        name = params.name
        if lacking := missing(self._parts, caller, name):
            return failed(lacking)
        if params.request_state is not None:
            return await self._continued(ctx, params)
        given = params.arguments or {}
        if self._is_own(name) and (wrong := unknown_inputs(self._parts, name, given)):
            return failed(wrong)
        try:
            run = await self._started(caller, name, given)
        except UnknownWorkflow as error:
            return failed(str(error))
        except REFUSED as error:
            return failed(f"{name} was not started: {error}")
        return await self._unless_gone(ctx, name, run, after=0)

    def _is_own(self, name: str) -> bool:
        return name in OWN_TOOLS and name not in self._parts.runs.engine.workflows

    async def _started(self, caller: McpCaller, name: str, given: dict[str, Any]) -> str:
        if self._is_own(name):
            document = Document(document=json.dumps(document_for(name, given)))
        else:
            document = Document(workflow=name)
        header = caller.header
        beside = kept(header) if header else lambda _run: ()
        return await self._parts.runs.start(document, given, caller="mcp", beside=beside)

    async def _continued(self, ctx: Ctx, params: CallToolRequestParams) -> Result:
        """Answer the question of a run that waits, and wait for its end or the next question."""
        asked = read_state(str(params.request_state))
        reply = (params.input_responses or {}).get(ANSWER)
        if not isinstance(reply, ElicitResult):
            raise MCPError(INVALID_PARAMS, f"The input response {ANSWER!r} is missing.")
        try:
            self._parts.runs.engine.row(asked.run)
        except UnknownRun as error:
            return failed(str(error))
        if ended := await self._replied(asked, reply):
            return ended
        return await self._unless_gone(ctx, params.name, asked.run, after=asked.seq)

    async def _replied(self, asked: Asked, reply: ElicitResult) -> CallToolResult | None:
        """Pass the person's reply to the run; returns the result if the call ends with it."""
        runs = self._parts.runs
        if reply.action == "cancel":
            return result_of(asked.run, f"The run {asked.run} still waits for the answer.")
        if reply.action == "decline":
            if runs.engine.row(asked.run).ended is not None:
                return None
            await runs.cancel(asked.run)
            return failed(DECLINED, asked.run)
        try:
            await runs.answer(asked.run, asked.path, value_of(reply), by=ANSWERED_BY)
        except (NotAsked, UnknownRun):
            return None  # Somebody has answered it elsewhere meanwhile, or the run has ended.
        except WrongAnswer as error:
            return failed(f"The answer is not valid: {error}", asked.run)
        return None

    async def _unless_gone(self, ctx: Ctx, name: str, run: str, *, after: int) -> Result:
        """Wait for the run; cancel it if the client is gone, but not if this service stops."""
        try:
            return await self._answered(ctx, run, after) or await self._outputs(name, run)
        except BaseException:
            if not self._parts.stop.asked:
                with anyio.CancelScope(shield=True):
                    await self._parts.runs.engine.cancel(run)
            raise

    async def _answered(self, ctx: Ctx, run: str, after: int) -> Result | None:
        """Have the questions answered until the run ends; returns the result if the call ends
        before."""
        async with aclosing(self._parts.runs.engine.follow(run, after=after)) as events:
            async for event in events:
                if event.type == "node.waiting" and (ended := await self._asked(ctx, run, event)):
                    return ended
        return None

    async def _asked(self, ctx: Ctx, run: str, event: Event) -> Result | None:
        """Ask the client's person; None if the run goes on."""
        form = form_of(event) if can_ask(ctx) else None
        if form is None:
            return result_of(run, question_text(run, event))
        asked = Asked(run, event.path, event.seq)
        if is_modern(ctx):
            return required(asked, form)
        try:
            reply = await ctx.session.elicit_form(
                form.message, form.requested_schema, related_request_id=ctx.request_id
            )
        except MCPError:  # The client cannot ask now; the question stays open.
            return result_of(run, question_text(run, event))
        return await self._replied(asked, reply)

    async def _outputs(self, name: str, run: str) -> CallToolResult:
        result = await self._parts.runs.engine.wait(run)
        if result.status != "done":
            return failed(
                f"The run {run} {result.status}: {result.error or 'somebody stopped it'}", run
            )
        outputs = result.outputs["result"] if self._is_own(name) else result.outputs
        return result_of(run, json.dumps(outputs, ensure_ascii=False), outputs)


def result_of(run: str, text: str, outputs: dict[str, Any] | None = None) -> CallToolResult:
    """Return a result with the id of its run."""
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=outputs, _meta={RUN: run}
    )


def failed(text: str, run: str | None = None) -> CallToolResult:
    """Return an error that the client's model reads."""
    meta = {RUN: run} if run else None
    return CallToolResult(content=[TextContent(text=text)], is_error=True, _meta=meta)
