"""A campaign that is killed at every write of its archive."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from prompt_engineering.archive import Archive, Candidate
from prompt_engineering.cases import case_file
from prompt_engineering.gate import Gate
from prompt_engineering.opening import campaign_of
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution import killed
from tests.integration.agent.evolution.conftest import archive_folder, client_of, fruit_cases

EXTENDED_INPUTS = ["prompt_engineering/**"]


def decided(candidate: Candidate) -> object:
    """What follows from the campaign's seed and its cases, not from its runs' ids."""
    scores = {id: (score.passes, score.runs) for id, score in candidate.select.items()}
    return candidate.genome, candidate.parents, candidate.status, scores


@pytest.mark.extended
async def test_campaign_that_is_killed_at_each_write_decides_as_one_that_is_not(
    started: House,
) -> None:
    """SIGKILL before and after each rename: nothing is lost, nothing is decided otherwise."""
    cases = case_file(fruit_cases({"learn": 1, "select": 2, "gate": 40}))
    (started.state / "evolution" / "cases" / "fruits.yaml").write_text(cases, encoding="utf-8")
    driver = [sys.executable, "-m", killed.__name__]
    root = Path(__file__).parents[4]

    ended = await asyncio.to_thread(
        subprocess.run,
        [*driver, started.address, started.key, str(started.state)],
        cwd=root, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    archive = Archive(archive_folder(started, "killed"))
    again = Archive(archive_folder(started, "whole"))
    settings = killed.options(started.state)
    async with client_of(started) as client:
        campaign = await campaign_of(client, settings.named("whole"))
        await campaign.run()
    assert [decided(one) for one in archive.candidates] == [
        decided(one) for one in again.candidates
    ]
    gates = [one.read("gate", Gate) for one in (archive, again)]
    assert [gate and (gate.decision, gate.wins, gate.losses) for gate in gates] == [
        ("promote", 8, 0)
    ] * 2
    # splits, settings, for each candidate: itself, two cases, its end; eight pairs, proposal,
    # result
    assert int(ended.stdout) == 2 * (1 + 1 + 2 * 4 + 8 + 2)
