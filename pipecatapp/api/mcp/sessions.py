"""Workflows as tools of the Model Context Protocol, and calls of them as runs."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from hearth.service.version import hearth_version
from pipecatapp.api.parts import Parts
from pipecatapp.application.engine import (
    Delta,
    Effect,
    Event,
    InvalidDocument,
    InvalidInputs,
    LedgerFailed,
    Listener,
    UnknownWorkflow,
    Workflow,
)
from pipecatapp.application.runs import Document, question_text

RUN: Final = "hearth/run"
"""The key of a result's `_meta` that names the run."""

LOOKS: Final = frozenset[Effect](("pure", "llm", "read"))
REFUSED: Final = (InvalidDocument, InvalidInputs, LedgerFailed)


MOST_SESSIONS: Final = 1000
"""Each session uses 40 kB. A client that opens a session for each call and closes none must not
block other clients for the half hour until its sessions are idle.
"""
IDLE_SECONDS: Final = 1800.0


def sessions_of(parts: Parts, *, max_body_bytes: int) -> StreamableHTTPSessionManager:
    """Return the sessions of all clients; a session ends after half an hour without a request."""
    return StreamableHTTPSessionManager(
        workflow_server(parts),
        max_request_body_size=max_body_bytes,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_SESSIONS,
    )


def workflow_server(parts: Parts) -> Server[Any]:
    """A server that lists the workflows which can run, by their ids, and runs them."""

    async def list_tools(
        ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        workflows = parts.runs.engine.workflows.values()
        return ListToolsResult(tools=[tool for w in workflows if (tool := as_tool(parts, w))])

    async def call_tool(
        ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return await called(parts, params.name, params.arguments or {})

    return Server(
        "hearth", version=hearth_version(), on_list_tools=list_tools, on_call_tool=call_tool
    )


def as_tool(parts: Parts, workflow: Workflow) -> Tool | None:
    """A workflow as clients see it; None for one that cannot run.

    What may ask a person promises no form of its answer: it may be the question.
    """
    effects = parts.runs.effects(workflow.id)
    if effects is None:
        return None
    return Tool(
        name=workflow.id,
        description=workflow.about or None,
        input_schema=workflow.input_schema(),
        output_schema=None if "human" in effects else workflow.output_schema(),
        annotations=ToolAnnotations(
            read_only_hint=effects <= LOOKS,
            destructive_hint=bool(effects & {"exec", "external"}),
            open_world_hint=bool(effects & {"net", "external"}),
        ),
    )


async def called(parts: Parts, name: str, inputs: dict[str, Any]) -> CallToolResult:
    """Run a workflow and return its outputs, or its question. A failure is an error of the tool, so
    that a model can read it. If the client abandons the call, the run is cancelled.
    """
    listener, document = Listener(), Document(workflow=name)
    try:
        run = await parts.runs.start(document, inputs, caller="mcp", listener=listener)
    except UnknownWorkflow as error:
        return _failed(str(error))
    except REFUSED as error:
        return _failed(f"The workflow {name} was not started: {error}")
    try:
        async for question in _questions(listener):
            return _told(run, question_text(run, question))
        result = await parts.runs.engine.wait(run)
    except BaseException:
        if not parts.stop.asked:
            with anyio.CancelScope(shield=True):
                await parts.runs.engine.cancel(run)
        raise
    if result.status != "done":
        return _failed(
            f"The run {run} {result.status}: {result.error or 'somebody stopped it'}", run
        )
    return _told(run, json.dumps(result.outputs, ensure_ascii=False), result.outputs)


async def _questions(listener: Listener) -> AsyncIterator[Event]:
    async for item in listener:
        if not isinstance(item, Delta) and item.type == "node.waiting":
            yield item


def _told(run: str, text: str, outputs: dict[str, Any] | None = None) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=outputs, _meta={RUN: run}
    )


def _failed(text: str, run: str | None = None) -> CallToolResult:
    meta = {RUN: run} if run else None
    return CallToolResult(content=[TextContent(text=text)], is_error=True, _meta=meta)
