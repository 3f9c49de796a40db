"""An engine on a real ledger, with small real tools."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.workflow import Engine, Ledger, ModelFacts, Prompt, load_document
from tests.unit.workflow.tools import TOOLS, Gates, Script, TakesTools

OpenEngine = Callable[..., Any]

PROMPTS = (
    Prompt("assistant", frozenset({"chat"}), "You are Hearth."),
    Prompt("terse", frozenset({"chat", "short"}), "Be short."),
)


@pytest.fixture
async def open_engine(tmp_path: Path) -> AsyncIterator[OpenEngine]:
    """`await open_engine(*documents)` opens an engine that knows these workflows."""
    async with AsyncExitStack() as stack:

        async def open_one(
            *documents: str, services: dict[Any, object] | None = None, file: str = "ledger.db"
        ) -> Engine:
            ledger = Ledger(tmp_path / file)
            stack.callback(ledger.close)
            given: dict[Any, object] = {
                Gates: Gates(),
                Script: Script(),
                ModelFacts: TakesTools(),
                Path: tmp_path / "log",
            }
            engine = Engine(
                ledger,
                tools=TOOLS,
                workflows=[load_document(text, file="test.yaml") for text in documents],
                prompts=PROMPTS,
                services={**given, **(services or {})},
                roles={"default": "auto", "small": "smollm2"},
            )
            return await stack.enter_async_context(engine)

        yield open_one
