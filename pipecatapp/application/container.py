"""Composition root: open the engine with its tools, records and services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import httpx2
import structlog

from hearth.cluster.async_nomad import AsyncNomad
from hearth.cluster.watch import ConsulAgent, ServiceWatch
from hearth.openai_api.client import ModelClient, Timeouts
from hearth.service.control import control_of
from hearth.service.host import HostMeter
from hearth.service.logs import lasting
from hearth.service.settings import SettingsError, read_key, trusting
from hearth.service.state import StateDir, read_instance
from pipecatapp.application.authoring import AuthoringService
from pipecatapp.application.documents.files import Library
from pipecatapp.application.home import HomeService
from pipecatapp.application.library.service import LibraryService
from pipecatapp.application.mcp import McpService
from pipecatapp.application.people import PeopleService
from pipecatapp.application.runs import RunService
from pipecatapp.application.schedules.store import Schedules
from pipecatapp.application.steps import packages_of_unfinished
from pipecatapp.application.triggers.service import TriggerService
from pipecatapp.records.conversations import turns
from pipecatapp.records.secrets import Secrets
from pipecatapp.records.tasks import StoredTasks
from pipecatapp.sandbox import Sandbox
from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.settings import Settings, inherited
from pipecatapp.tools import TOOLS
from pipecatapp.tools.autonomy.authoring import Author
from pipecatapp.tools.browser.session import Browsers
from pipecatapp.tools.cluster.consul import ConsulPlaces
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.fixed import FixedPlaces
from pipecatapp.tools.cluster.nomad import NomadView
from pipecatapp.tools.cluster.places import Places
from pipecatapp.tools.code.elsewhere.errands import Errands
from pipecatapp.tools.code.elsewhere.opening import open_elsewhere
from pipecatapp.tools.code.elsewhere.places import Places as CodePlaces
from pipecatapp.tools.code.packages import Packages
from pipecatapp.tools.home.home import Home
from pipecatapp.tools.knowledge.embedding import EmbeddingModel
from pipecatapp.tools.knowledge.knowledge import Knowledge
from pipecatapp.tools.mcp.save import McpFiles
from pipecatapp.tools.memory.conversation import Conversations
from pipecatapp.tools.model.facts import ExpertFacts
from pipecatapp.tools.plugins import plugins
from pipecatapp.tools.ports.opening import Ports
from pipecatapp.tools.prompts.find import Prompts
from pipecatapp.tools.search.files import FileIndexes
from pipecatapp.tools.search.web import SEARXNG, WebSearch
from pipecatapp.tools.tasks.save import Tasks
from pipecatapp.tools.web.addresses import AddressPolicy
from pipecatapp.workflow import (
    Documents,
    Engine,
    InvalidDocument,
    Ledger,
    ModelFacts,
    Tool,
    Workspaces,
)
from pipecatapp.workspace import GitWorkspaces

log = structlog.get_logger()

ASK_SECONDS = 2.0
"""Timeout of a health check of a service."""


@dataclass(frozen=True)
class Container:
    """An open engine and the services of the application on it."""

    runs: RunService
    directory: Directory
    facts: ExpertFacts
    schedules: Schedules
    triggers: TriggerService
    library: LibraryService
    home: HomeService
    client: ModelClient
    """The client of the gateway."""
    knowledge: Knowledge


def library_of(settings: Settings) -> Library:
    """The shipped documents, and before them those that people keep in the state directory."""
    library = Library.shipped()
    library.add_folder(settings.state_dir)
    return library


@asynccontextmanager
async def open_container(settings: Settings) -> AsyncIterator[Container]:
    """The engine on the ledger of `settings.state_dir`, whose lease it holds while the block runs.

    Raises `LedgerBusy`, `LedgerTooNew`, `LedgerFailed`, and `InvalidDocument` never: a document of
    the state directory that is wrong is left out.
    """
    key = gateway_key(settings)
    timeouts = Timeouts(settings.gateway_connect_timeout, settings.gateway_answer_timeout)
    async with AsyncExitStack() as stack:
        tls = trusting(settings.tls_ca_file)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=ASK_SECONDS, verify=tls, trust_env=False)
        )
        places = await open_places(settings, http, stack)
        client = await stack.enter_async_context(
            ModelClient(places.gateway, key, timeouts, tls=tls)
        )
        sandbox, secrets = Sandbox(), secrets_of(settings)
        mcp = McpService(settings, secrets)
        directory = Directory(places, key=key, http=http, own=mcp.health)
        facts = ExpertFacts(directory, hosted=settings.hosted_models)
        library, knowledge = library_of(settings), _knowledge(settings, directory, sandbox, stack)
        ledger = Ledger(settings.state.ledger)
        stack.callback(ledger.close)
        library.add_tasks((one.id, one.document) for one in StoredTasks(ledger).find(limit=10**6))
        engine = Engine(
            ledger,
            tools=configured_tools(settings),
            workflows=library.workflows.values(),
            prompts=library.prompts.values(),
            projects=library.projects.values(),
            services={
                ModelClient: client,
                ModelFacts: facts,
                Directory: directory,
                Ledger: ledger,
                StateDir: settings.state,
                Knowledge: knowledge,
                Documents: library.documents,
                Sandbox: sandbox,
                Ceiling: settings.code_ceiling,
                Secrets: secrets,
                Ports: Ports(settings.state_dir / "ports.yaml", secrets),
                CodePlaces: await open_code_places(settings, stack),
                Workspaces: GitWorkspaces(settings.state_dir / "workspaces"),
                WebSearch: WebSearch(str(settings.searxng_url or "")),
                FileIndexes: FileIndexes(settings.state_dir / "search"),
                AddressPolicy: AddressPolicy(settings.web_hosts, settings.web_private),
                McpFiles: McpFiles(mcp.read),
                Packages: Packages(
                    settings.state_dir / "packages",
                    sandbox,
                    needed=lambda: packages_of_unfinished(ledger.read),
                ),
                Conversations: Conversations(
                    lambda id, limit, run: turns(ledger.read, id, limit, before=run or None)
                ),
            },
            roles=settings.model_roles,
        )
        engine.learn(plugins(settings.state_dir / "tools"))
        await stack.enter_async_context(mcp.running(engine.learn))
        tell_invalid(engine, library)
        browsers = await _enter(engine, settings, stack)
        schedules = await _schedules(ledger, engine)
        await facts.refresh()
        _last(facts.keep_fresh, stack)
        runs = RunService(engine, library.documents, secrets)
        home = HomeService(settings, engine, mcp, PeopleService(directory, engine), secrets)
        _last(home.keep_fresh, stack)
        prompts_and_tasks = LibraryService(runs, settings.state_dir)
        engine.provide(
            {
                Browsers: browsers,
                Home: home.home,
                Tasks: Tasks(prompts_and_tasks),
                Author: Author(AuthoringService(runs)),
                Prompts: Prompts(prompts_and_tasks.prompts),
            }
        )
        yield Container(
            runs,
            directory,
            facts,
            schedules,
            TriggerService(settings.state_dir / "triggers", runs, secrets),
            prompts_and_tasks,
            home,
            client,
            knowledge,
        )


def _knowledge(
    settings: Settings, directory: Directory, sandbox: Sandbox, stack: AsyncExitStack
) -> Knowledge:
    """Return the indexed documents, whose indexing ends with the stack."""
    model = EmbeddingModel(directory, settings.knowledge_model)
    services = {Sandbox: sandbox, Ceiling: settings.code_ceiling}
    knowledge = Knowledge(settings.state.knowledge, model, services)
    stack.push_async_callback(knowledge.close)
    return knowledge


def configured_tools(settings: Settings) -> list[Tool]:
    """Return all tools; one that needs a setting that is not set is listed as unavailable."""
    lacking = {"search.web": SEARXNG} if settings.searxng_url is None else {}
    return [
        replace(tool, needs=(*tool.needs, lacking[name])) if name in lacking else tool
        for name, tool in TOOLS.items()
    ]


async def _schedules(ledger: Ledger, engine: Engine) -> Schedules:
    """Return the schedules, with those of the workflows."""
    schedules = Schedules(ledger)
    await schedules.follow(engine.workflows.values())
    return schedules


async def _enter(engine: Engine, settings: Settings, stack: AsyncExitStack) -> Browsers:
    """Open the engine, and return the browser of its runs, which ends after their calls."""
    browsers = Browsers(settings.web_private, ended=engine.wait)
    stack.push_async_callback(browsers.close)
    await stack.enter_async_context(engine)
    return browsers


def secrets_of(settings: Settings) -> Secrets:
    """The values of the secrets that projects name."""
    return Secrets(settings.state_dir / "secrets", inherited())


async def open_code_places(settings: Settings, stack: AsyncExitStack) -> CodePlaces:
    """Return the executors for programs of nodes, in addition to the local sandbox."""
    return await open_elsewhere(
        stack,
        Errands(settings.errands),
        own_url=settings.own_url,
        docker_url=settings.docker_url,
        nomad_url=settings.nomad_url,
        code_job=settings.code_job,
        nomad_token_file=settings.nomad_token_file,
        tls=trusting(settings.tls_ca_file),
        ca_file=settings.tls_ca_file,
    )


async def open_places(
    settings: Settings, http: httpx2.AsyncClient, stack: AsyncExitStack
) -> Places:
    """Return the addresses of gateway and services: from Consul if it is set, else the settings."""
    if settings.consul_url is None:
        return FixedPlaces(
            lambda: running_services(settings),
            gateway=settings.gateway,
            http=http,
            meter=HostMeter(settings.state_dir),
            control=lambda: control_of(settings.state),
        )
    nomad = None
    if settings.nomad_url is not None:
        tls = trusting(settings.tls_ca_file)
        client = AsyncNomad(
            settings.nomad_url, timeout=ASK_SECONDS, token_file=settings.nomad_token_file, tls=tls
        )
        nomad = NomadView(await stack.enter_async_context(client))
    links = {name: str(url) for name, url in settings.links.items()}
    places = ConsulPlaces(nomad, links)
    agent = ConsulAgent(str(settings.consul_url), settings.consul_token_file, settings.tls_ca_file)
    places.watch = ServiceWatch(agent, wanted=lambda name: True, changed=places.changed)
    _last(places.watch.run, stack)
    return places


def running_services(settings: Settings) -> dict[str, str]:
    """The addresses of the services by name: those that `hearth up` runs now, else the settings'.

    The settings are those of the start, and the expert may have been replaced since.
    """
    instance = read_instance(settings.state)
    if instance is None or not settings.service_urls:
        return settings.service_urls
    return {one.name: one.url for one in instance.services}


def _last(work: Callable[[], Awaitable[None]], stack: AsyncExitStack) -> None:
    """Do it for as long as the stack lasts, whose end waits for it: cancelled once more by the end
    of the event loop, it would leave connections open."""
    task = asyncio.create_task(lasting(work))

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})

    stack.push_async_callback(end)


def tell_invalid(engine: Engine, library: Library) -> None:
    """Log the workflows that cannot run; starting one gives the same error.

    Workflows that come with Hearth are compiled here only if a person's documents may have changed
    what they use: a test compiles them all, and compiling takes a fifth of the start.
    """
    for name in engine.workflows if library.changed else ():
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
