"""Repairs that the supervisor performs, on real processes of a local instance."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from hearth.models.catalogue import FALLBACK, Catalogue, shipped_catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.service.state import StateDir, read_instance
from pipecatapp.client import Client, connect
from prompt_engineering import repairs
from prompt_engineering.diagnosis import by_rules, gather
from prompt_engineering.failures import failure_of
from prompt_engineering.opening import Options
from prompt_engineering.repairs import (
    Attempt,
    Repairs,
    read_repairs,
    restart_unhealthy,
    serve_smaller,
)
from prompt_engineering.supervisor import supervise
from prompt_engineering.watching import handle_failures
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import client_of
from tests.integration.agent.test_models import write_catalogue
from tests.integration.local.conftest import Tiny, make_tiny, wait_for
from tests.integration.models.conftest import CONTENT
from tests.rules.tree import ROOT

EXTENDED_INPUTS = ["prompt_engineering/**", "hearth/local/process/**", "hearth/models/**"]

__all__ = ["make_tiny"]

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
AT_ONCE = timedelta(0)
LARGE = "large"


@pytest.fixture
def tiny(make_tiny: Callable[[], Tiny], empty_house: House, tmp_path: Path) -> Iterator[Tiny]:
    """Tiny services under a real `hearth up`, with the agent of the test on their state."""
    tiny = make_tiny()
    tiny.be(moe_gateway={"stop_seconds": 1})
    write_catalogue(tmp_path / "models.yaml", "http://127.0.0.1:9/tiny.gguf", ram_bytes=1000)
    up = tiny.start()
    tiny.running()
    empty_house.key = tiny.state.key_file.read_text(encoding="ascii").strip()
    empty_house.state = tiny.state.root
    empty_house.more = {"catalogue": str(tmp_path / "models.yaml")}
    with empty_house.running():
        yield tiny
    up.send(signal.SIGINT)
    assert up.ended() == 0
    tiny.assert_nothing_left()


def pid_of(state: StateDir, name: str) -> int:
    """The process of a service of the instance."""
    instance = wait_for(lambda: read_instance(state), "it runs")
    return next(one.pid for one in instance.services if one.name == name)


def resumed(pid: int) -> None:
    """Let a stopped process go on, if it is still there."""
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, signal.SIGCONT)


async def failed_run(client: Client) -> str:
    """A run whose error names used up memory: that of a file with such a name."""
    document = """
id: big
steps: [{id: big, use: file.read, with: {path: out of memory}}]
"""
    body = {"document": document, "inputs": {}}
    run = str((await client.request("POST", "/api/runs", body))["run"])
    async for _ in client.events(run):
        pass
    return run


@pytest.mark.extended
async def test_service_that_hangs_is_restarted_once(tiny: Tiny, empty_house: House) -> None:
    """`hearth up` sees processes that end; one that does not answer is restarted by the repair."""
    folder = tiny.state.root / "evolution"
    before = pid_of(tiny.state, "moe-gateway")
    others = {name: pid_of(tiny.state, name) for name in ("llama-expert", "pipecatapp")}
    async with client_of(empty_house) as client:
        assert await restart_unhealthy(client, folder, grace=AT_ONCE) == []
        os.kill(before, signal.SIGSTOP)
        try:
            assert await restart_unhealthy(client, folder) == [], "it may just be starting"
            (done,) = await restart_unhealthy(client, folder, grace=AT_ONCE)
        finally:
            resumed(before)
        assert done.startswith("moe-gateway@")
        assert done.endswith(" was restarted and is healthy.")
        after = pid_of(tiny.state, "moe-gateway")
        assert after != before
        assert {name: pid_of(tiny.state, name) for name in others} == others

        os.kill(after, signal.SIGSTOP)
        try:
            (refused,) = await restart_unhealthy(client, folder, grace=AT_ONCE)
        finally:
            resumed(after)
        assert "The next repair of moe-gateway@" in refused
        assert pid_of(tiny.state, "moe-gateway") == after


async def test_service_that_is_down_is_only_named_without_permission(
    tiny: Tiny, empty_house: House
) -> None:
    """The supervisor names the repair; the process stays as it is."""
    gateway = pid_of(tiny.state, "moe-gateway")
    async with client_of(empty_house) as client:
        body: dict[str, Any] = {"workflow": "agent-turn", "inputs": {"text": "Hello"}}
        empty_house.model.when("Hello").refuse(400, "No.")
        run = str((await client.request("POST", "/api/runs", body))["run"])
        async for _ in client.events(run):
            pass
        os.kill(gateway, signal.SIGSTOP)
        try:
            options = Options(prompt="", state_dir=tiny.state.root)
            (handled,) = await handle_failures(client, options)
        finally:
            resumed(gateway)

    assert handled.reflection.action == "restart"
    assert handled.message == "Run `hearth status`; on a cluster run heal_cluster.yaml."
    assert pid_of(tiny.state, "moe-gateway") == gateway
    assert not (tiny.state.root / "evolution" / "repairs").exists()


async def test_model_that_cannot_be_served_leaves_the_one_before(
    tiny: Tiny, empty_house: House, tmp_path: Path
) -> None:
    """This instance refuses the change: it is recorded, and the same failure changes nothing."""
    folder = tiny.state.root / "evolution"
    async with client_of(empty_house) as client:
        assert "No smaller model" in await serve_smaller(client, folder, "r0")
        store, model = (
            ModelStore(tiny.state.models),
            Catalogue.load(tmp_path / "models.yaml")["tiny"],
        )
        store.folder(model).mkdir(parents=True)
        store.path(model).write_bytes(CONTENT)
        store.verify(model)

        result = await serve_smaller(client, folder, "r1", now=BEGIN)
        again = await serve_smaller(client, folder, "r1", now=BEGIN + timedelta(hours=1))

    assert result == ("smollm2 serves on: This instance has no expert whose model can be changed.")
    assert again == "The failure r1 has led to a repair of expert already."
    assert read_repairs(folder, "expert").attempts[0].result == result


@pytest.mark.extended
async def test_supervisor_command_repairs_with_permission(
    tiny: Tiny, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option, down to the new process; another repair than the two is refused."""
    monkeypatch.setattr(repairs, "GRACE", AT_ONCE)
    gateway = pid_of(tiny.state, "moe-gateway")
    instance = read_instance(tiny.state)
    assert instance is not None
    here = instance.model_copy(update={"web": empty_house.address})
    tiny.state.instance_file.write_text(here.model_dump_json(), encoding="utf-8")
    app = typer.Typer()
    app.command()(supervise)
    state = ["--state-dir", str(tiny.state.root)]
    os.kill(gateway, signal.SIGSTOP)
    try:
        with empty_house.client() as client:
            client.get("/api/status").raise_for_status()
        ran = await asyncio.to_thread(CliRunner().invoke, app, ["--allow", "restart", *state])
    finally:
        resumed(gateway)
    refused = await asyncio.to_thread(CliRunner().invoke, app, ["--allow", "reboot", *state])

    assert ran.exit_code == 0, ran.output
    assert "was restarted and is healthy." in ran.output
    assert pid_of(tiny.state, "moe-gateway") != gateway
    assert refused.exit_code == 2


@pytest.fixture
def two_models(make_tiny: Callable[[], Tiny], tmp_path: Path) -> Iterator[Tiny]:
    """The real `hearth up`, which serves a model that another one is smaller than."""
    tiny = make_tiny()
    tiny.module = "hearth"
    cached = ModelStore(ROOT / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], cached)
    yaml = YAML()
    catalogue = yaml.load(shipped_catalogue())
    small = catalogue["models"][FALLBACK]
    catalogue["models"][LARGE] = {**small, "ram_bytes": small["ram_bytes"] + 1}
    yaml.dump(catalogue, tmp_path / "models.yaml")
    for name in (FALLBACK, LARGE):
        shutil.copytree(cached.root / FALLBACK, tiny.state.models / name)
    tiny.environment["HEARTH_CATALOGUE"] = str(tmp_path / "models.yaml")
    used = tiny.run("models", "use", LARGE)
    assert used.returncode == 0, used.stderr
    up = tiny.start("--no-speech")
    wait_for(lambda: read_instance(tiny.state), "the instance is healthy", 300)
    yield tiny
    up.send(signal.SIGINT)
    assert up.ended() == 0
    tiny.assert_nothing_left()


@pytest.mark.extended
@pytest.mark.timeout(600)
async def test_smaller_model_serves_after_a_run_that_used_up_the_memory(two_models: Tiny) -> None:
    """The failed run, the facts, the allowed action, and another model in the real engine."""
    state = two_models.state
    async with connect(state.root) as client:
        run = await failed_run(client)
        facts = await gather(client, await failure_of(client, run))
        assert by_rules(facts).action == "more_memory"

        done = await serve_smaller(client, state.root / "evolution", run)

        # The gateway looks for experts at intervals.
        for _ in range(300):
            experts = await experts_of(client)
            if experts == [(FALLBACK, True)]:
                break
            await asyncio.sleep(0.2)
    assert done == f"{FALLBACK} serves instead of {LARGE}."
    assert experts == [(FALLBACK, True)]
    assert pid_of(state, f"llama-expert-{FALLBACK}")


async def experts_of(client: Client) -> list[tuple[str, bool]]:
    """The model of each expert that the status names, and whether it is healthy."""
    experts = (await client.request("GET", "/api/status"))["experts"]
    return [(one["model"], one["healthy"]) for one in experts]


def test_repairs_of_a_target_pause_and_end() -> None:
    """Ten minutes, twenty minutes, and no fourth repair on one day."""
    record = Repairs(target="moe-gateway@home")
    for minutes, refusal in ((0, None), (9, "00:10"), (10, None), (29, "00:30"), (30, None)):
        now = BEGIN + timedelta(minutes=minutes)
        found = record.refusal(now)
        assert (found is None) if refusal is None else (refusal in str(found))
        if found is None:
            attempt = Attempt(at=now)
            record = record.model_copy(update={"attempts": (*record.attempts, attempt)})

    assert "A person has to look at it" in str(record.refusal(BEGIN + timedelta(hours=23)))
    assert record.refusal(BEGIN + timedelta(hours=25)) is None
