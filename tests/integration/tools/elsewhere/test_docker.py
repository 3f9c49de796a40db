"""Programs in containers of a real Docker Engine: as locally, and never more than they may."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.workflow import Context, Project, ToolFailed, load_document
from tests.integration.tools.elsewhere import engine as docker
from tests.integration.tools.elsewhere.documents import (
    LONG,
    cluster_engine,
    outputs_of,
    until,
    work,
)

EXTENDED_INPUTS = [
    "pipecatapp/tools/code/elsewhere/*",
    "pipecatapp/sandbox/**",
    "tests/integration/tools/elsewhere/documents.py",
    "tests/integration/tools/elsewhere/engine.py",
]
ROOT = Path(__file__).parents[4]
WALLS = """
id -u
grep CapEff /proc/self/status
touch /x || echo fixed
{ touch /tmp/x; touch x; } 2>&1 && echo written
ls /sys/class/net
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One engine for all tests here."""
    if reason := docker.missing():
        pytest.skip(reason)
    with docker.docker_engine(tmp_path_factory.mktemp("docker")) as found:
        yield found


def containers(address: str) -> list[str]:
    """What is left of ours, running or not."""
    found = docker.asked(address, "GET", "/containers/json", params={"all": "true"}).json()
    return [one["Id"] for one in found]


def left_of_the_errand(folder: Path) -> set[str]:
    (place,) = (folder / "errands").iterdir()
    return {one.name for one in place.iterdir()}


def one_program(code: str, image: str = docker.IMAGE, **limits: int) -> str:
    given = {"language": "sh", "image": image, "code": code, **limits}
    node = {"id": "work", "use": "code.run", "where": "docker", "with": given}
    whole = {"kind": "workflow", "id": "one", "steps": [node], "outputs": {"work": "{{ work }}"}}
    return json.dumps(whole)


@pytest.mark.proves("001-13")
async def test_container_gives_what_the_sandbox_gives(address: str, tmp_path: Path) -> None:
    """Where a program runs must not change what a workflow does with it."""
    (tmp_path / "local").mkdir()
    async with cluster_engine(tmp_path / "local", work("local"), own_url="") as engine:
        here = await outputs_of(engine, "work")
    settings = {"own_url": "", "docker_url": address}
    async with cluster_engine(tmp_path, work("docker", docker.IMAGE), **settings) as engine:
        there = await outputs_of(engine, "work")

    assert there == here
    assert here["work"]["exit_code"] == 3
    assert here["after"].startswith("changed\nnew\n")
    assert containers(address) == []


async def test_container_gives_a_program_no_more_than_the_sandbox(
    address: str, tmp_path: Path
) -> None:
    """An image is somebody else's; what runs in it has no network, no power and one folder."""
    async with cluster_engine(tmp_path, one_program(WALLS), own_url="", docker_url=address) as e:
        told = (await outputs_of(e, "one"))["work"]["stdout"].splitlines()

    assert told == ["1000", "CapEff:\t0000000000000000", "fixed", "written", "lo"]


async def test_secret_reaches_a_container_and_not_what_is_told_of_it(
    address: str, tmp_path: Path
) -> None:
    """Wherever a program runs it is given its keys, and they are hidden in what it prints."""
    secrets = Secrets(tmp_path / "secrets", {})
    secrets.keep("oven", "sk-oven-0123456789")
    document = json.loads(one_program('case $KEY in sk-oven-*9) echo "it is $KEY";; esac'))
    document["project"] = "bakery"
    document["steps"][0]["with"]["secrets"] = {"KEY": "oven"}
    given: dict[str, Any] = {
        "services": {Secrets: secrets},
        "projects": [Project("bakery", {"secrets": {"oven": "kept:oven"}}, {})],
        "own_url": "",
        "docker_url": address,
    }
    async with cluster_engine(tmp_path, json.dumps(document), **given) as engine:
        told = (await outputs_of(engine, "one"))["work"]["stdout"]

    assert told == "it is ***\n"
    assert containers(address) == []
    assert "sk-oven-0" not in (tmp_path / "ledger.db").read_bytes().decode(errors="replace")
    kept = left_of_the_errand(tmp_path)
    assert "result.tar" in kept
    assert not {"errand.json", "given.tar", "work"} & kept


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("time", one_program("sleep 100", seconds=1)),
        ("memory", one_program("tail /dev/zero", memory_mb=32)),
    ],
)
async def test_container_is_stopped_by_its_limits(
    address: str, tmp_path: Path, kind: str, document: str
) -> None:
    """A limit has the same name wherever the program ran."""
    async with cluster_engine(tmp_path, document, own_url="", docker_url=address) as engine:
        told = (await outputs_of(engine, "one"))["work"]

    assert (told["stopped"], told["exit_code"]) == (kind, None)
    assert containers(address) == []


async def test_container_is_found_again_after_a_kill(address: str, tmp_path: Path) -> None:
    """An hour of work in a container is not thrown away because the service was restarted."""
    wait = "while ! test -e go; do sleep 0.1; done"
    document = LONG.format(where="docker", image=docker.IMAGE, wait=wait)
    settings = {"own_url": "", "docker_url": address}
    module = "tests.integration.tools.elsewhere.victim"
    words = [str(tmp_path), "before", json.dumps(settings), document]
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", module, *words], cwd=ROOT, timeout=240
    )
    assert killed.returncode == -9
    before = containers(address)

    async with cluster_engine(tmp_path, document, **settings) as engine:
        (run,) = await engine.resume_unfinished()
        (await until(tmp_path, "work")).joinpath("go").touch()
        ended = await engine.wait(run)

    assert len(before) == 1
    assert ended.outputs == {"text": "begun\nended\n"}
    assert containers(address) == []


@pytest.mark.extended
@pytest.mark.timeout(600)
@pytest.mark.proves("001-04")
async def test_debian_is_started_and_stopped_and_the_sandbox_stays_the_default(
    address: str, tmp_path: Path
) -> None:
    """An image of one's own, from debootstrap, needs no registry; who names no place gets none."""
    docker.import_image(address, docker.debian_image(), docker.DEBIAN)
    document = LONG.format(where="docker", image=docker.DEBIAN, wait="sleep 600")
    there = one_program("cat /etc/debian_version /proc/1/comm", image=docker.DEBIAN)
    here = json.loads(there)
    del here["steps"][0]["where"], here["steps"][0]["with"]["image"]
    settings = {"own_url": "", "docker_url": address}
    async with cluster_engine(tmp_path, document, there, **settings) as engine:
        in_debian = (await outputs_of(engine, "one"))["work"]
        run = await engine.start("long", {})
        await until(tmp_path, "before")
        # In a thread: anyio takes it ill when data of a socket and a cancellation come at once.
        async with asyncio.timeout(60):
            while len(await asyncio.to_thread(containers, address)) != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await engine.cancel(run)
        plan = engine.plan(load_document(json.dumps(here), file="here.yaml"))
        by_default = (await engine.wait(await engine.start(plan, {}))).outputs["work"]

    assert in_debian["stdout"].startswith("12.")
    assert not in_debian["stdout"].endswith("bwrap\n")
    assert by_default["stdout"].endswith("bwrap\n")
    assert containers(address) == []


async def test_cancelled_run_takes_its_container_with_it(address: str, tmp_path: Path) -> None:
    """Nobody pays for a program that nobody waits for."""
    document = LONG.format(where="docker", image=docker.IMAGE, wait="sleep 100")
    async with cluster_engine(tmp_path, document, own_url="", docker_url=address) as engine:
        run = await engine.start("long", {})
        await until(tmp_path, "before")
        await engine.cancel(run)

    assert containers(address) == []
    assert list((tmp_path / "errands").iterdir()) == []


async def test_place_that_is_not_set_up_is_refused_with_what_to_set(tmp_path: Path) -> None:
    """A program that should run elsewhere must never run here instead."""
    async with cluster_engine(tmp_path, one_program("true"), own_url="") as engine:
        ended = await engine.wait(await engine.start("one", {}))

    assert ended.status == "failed"
    assert "PIPECATAPP_DOCKER_URL" in str(ended.error)


async def test_image_and_packages_belong_to_their_place(tmp_path: Path) -> None:
    """An input that could not be honoured is told, not dropped."""
    here, there = Context(), Context(where="docker", services={Places: Places()})

    with pytest.raises(ToolFailed, match="where: docker"):
        await TOOLS["code.run"].check(here, {"command": ["true"], "image": "x"})
    with pytest.raises(ToolFailed, match="this machine"):
        await TOOLS["code.run"].check(there, {"command": ["true"], "packages": "a" * 24})
