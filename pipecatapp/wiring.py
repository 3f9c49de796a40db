"""The engine with everything it works with: the one place where it is put together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx2
import structlog

from hearth.openai_api.client import ModelClient, Timeouts
from hearth.service.settings import SettingsError, read_key
from pipecatapp.library.documents import Library
from pipecatapp.runs import Runs
from pipecatapp.settings import Settings
from pipecatapp.tools import TOOLS
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.memory.conversation import Conversations
from pipecatapp.tools.model.facts import ExpertFacts
from pipecatapp.workflow import Engine, InvalidDocument, Ledger, ModelFacts

log = structlog.get_logger()

ASK_SECONDS = 2.0
"""How long a service may take to tell its health."""


@dataclass(frozen=True)
class Assembly:
    """An open engine and the parts that others use too."""

    runs: Runs
    directory: Directory
    facts: ExpertFacts


def library_of(settings: Settings) -> Library:
    """The shipped documents, and before them those that people keep in the state directory."""
    library = Library.shipped()
    library.add_folder(settings.state_dir)
    return library


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Assembly]:
    """The engine on the ledger of `settings.state_dir`, whose lease it holds while the block runs.

    Raises `LedgerBusy`, `LedgerTooNew`, `LedgerFailed`, and `InvalidDocument` never: a document of
    the state directory that is wrong is left out.
    """
    key = gateway_key(settings)
    timeouts = Timeouts(settings.gateway_connect_timeout, settings.gateway_answer_timeout)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ModelClient(settings.gateway, key, timeouts))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=ASK_SECONDS, trust_env=False)
        )
        directory = Directory(settings.service_urls, gateway=settings.gateway, key=key, http=http)
        facts, library = ExpertFacts(directory), library_of(settings)
        ledger = Ledger(settings.state.ledger)
        stack.callback(ledger.close)
        engine = Engine(
            ledger,
            tools=TOOLS.values(),
            workflows=library.workflows.values(),
            prompts=library.prompts.values(),
            services={
                ModelClient: client,
                ModelFacts: facts,
                Directory: directory,
                Ledger: ledger,
                Conversations: Conversations(lambda id, limit: engine.conversation(id, limit)),
            },
            roles=settings.model_roles,
        )
        tell_invalid(engine)
        await stack.enter_async_context(engine)
        await facts.refresh()
        refreshing = asyncio.create_task(facts.keep_fresh())
        stack.callback(refreshing.cancel)
        yield Assembly(Runs(engine), directory, facts)


def tell_invalid(engine: Engine) -> None:
    """Log the workflows that cannot run; whoever starts one is told the same."""
    for name in engine.workflows:
        try:
            engine.plan(name)
        except InvalidDocument as error:
            log.warning("workflow_invalid", workflow=name, reason=str(error))


def gateway_key(settings: Settings) -> str:
    """The key for the gateway; empty where the state directory has none yet."""
    if settings.gateway_key_file is None and not settings.gateway_key_path.exists():
        return ""
    return read_key(settings.gateway_key_path)


def caller_keys(settings: Settings) -> list[str]:
    """The keys that open this service. Raises `SettingsError`: it never runs without one."""
    keys = [read_key(path) for path in settings.key_paths]
    if not keys:
        raise SettingsError("PIPECATAPP_KEY_FILES is empty.")
    return keys
