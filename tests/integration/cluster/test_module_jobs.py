"""The modules for jobs and their secrets, run by Ansible against a real Nomad."""

from pathlib import Path
from typing import Any

import pytest

from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.jobs.state import state_of
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, wait_for
from tests.integration.cluster.conftest import NOMAD_TOKEN
from tests.integration.cluster.playing import play
from tests.integration.cluster.test_jobs import SERVICE

EXTENDED_INPUTS = [
    "ansible/plugins/action/*",
    "ansible/plugins/modules/nomad_*",
    "hearth/cluster/*.py",
    "tests/integration/cluster/*.py",
]
pytestmark = [pytest.mark.nomad, pytest.mark.extended]
EVERYWHERE = """
job "everywhere" {
  type = "system"
  group "program" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "program" {
      driver = "raw_exec"
      config {
        command = "PROGRAM"
      }
      resources { memory = 32 }
    }
  }
}
"""
SECRET = "sk-hearth-nobody-may-see-this"


def _asks(agent: Agent, **given: Any) -> dict[str, Any]:
    authority = str(agent.endpoint.ca_file)
    return {"url": agent.endpoint.url, "ca_file": authority, "token": NOMAD_TOKEN} | given


def test_job_is_run_once_and_a_second_run_changes_nothing(
    nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """The word of a play is the word of the plan: 0 changed means that nothing was registered."""
    file = tmp_path / "played.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "played"))
    task = {"nomad_job": _asks(nomad_server, src=str(file), variables={"words": "hi"})}
    other = {"nomad_job": _asks(nomad_server, src=str(file), variables={"words": "ho"})}
    stop = {"nomad_job": _asks(nomad_server, state="absent", job="played")}

    looked, _ = play(tmp_path, [task], "--check", "--diff")
    first, second, output = play(tmp_path, [task, task], "--diff")
    index = nomad.job("played")["JobModifyIndex"]
    edited, output_of_check = play(tmp_path, [other], "--check", "--diff")
    untouched = nomad.job("played")["JobModifyIndex"]
    gone, gone_already, _ = play(tmp_path, [stop, stop])

    assert (looked["changed"], looked["diff"]["before"]) == (True, "")
    assert looked["diff"]["after"] == first["diff"]["after"]
    assert [row["node"] for row in first["allocations"]] == ["solo"]
    assert not second["changed"]
    assert '+job "played"' in output
    assert '-      Env[WORDS] = "hi"' in output_of_check
    assert '+      Env[WORDS] = "ho"' in output_of_check
    assert (edited["changed"], untouched) == (True, index)
    assert (gone["changed"], gone_already["changed"]) == (True, False)


def test_what_failed_on_a_machine_that_was_not_ready_is_placed_again(
    nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """A machine joins a cluster that runs: jobs for all machines are placed there before their
    programs are, and Nomad tries that once. The job itself is as it was."""
    file, program = tmp_path / "everywhere.nomad.hcl", tmp_path / "program"
    file.write_text(EVERYWHERE.replace("PROGRAM", str(program)))
    jobs = Jobs(nomad)
    jobs.register(jobs.plan(Source("x", file.read_text())))
    wait_for(lambda: bool(state_of(nomad, "everywhere").abandoned), nomad_server)
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    task = {"nomad_job": _asks(nomad_server, src=str(file), wait_timeout=60)}

    revived, again, _ = play(tmp_path, [task, task])
    nomad.stop("everywhere", purge=True)

    assert (revived["changed"], revived["revived"]) == (True, True)
    assert [row["node"] for row in revived["allocations"]] == ["solo"]
    assert not again["changed"]


def test_new_job_may_start_while_others_are_registered(
    nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """A new cluster is up as soon as its slowest service; one that answers somebody is replaced
    before the next one is."""
    file = tmp_path / "patient.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "patient"))

    def run(words: str) -> dict[str, Any]:
        given = {"src": str(file), "variables": {"words": words}, "wait": "update"}
        return {"nomad_job": _asks(nomad_server, **given)}

    wait = {"nomad_job": _asks(nomad_server, state="healthy", job="patient", wait_timeout=60)}
    nobody = {"nomad_job": _asks(nomad_server, state="healthy", job="nobody", wait_timeout=60)}

    looked, _ = play(tmp_path, [nobody], "--check")
    new, waited, replaced, _ = play(tmp_path, [run("hi"), wait, run("ho")])
    refused, _ = play(tmp_path, [nobody], fails=True)
    nomad.stop("patient", purge=True)

    assert new["changed"]
    assert "allocations" not in new
    assert not waited["changed"]
    assert [row["node"] for row in waited["allocations"]] == ["solo"]
    assert [row["node"] for row in replaced["allocations"]] == ["solo"]
    assert replaced["allocations"] != waited["allocations"]
    assert not looked["changed"]
    assert "nobody" in refused["msg"]


def test_failed_job_fails_the_play_with_its_cause(
    nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """The last lines on the terminal say what to mend; a second run tries the same job again."""
    file = tmp_path / "broken.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "broken"))
    values = {"words": "no such model", "seconds": 0}
    task = {"nomad_job": _asks(nomad_server, src=str(file), variables=values, wait_timeout=60)}

    failed, _ = play(tmp_path, [task], fails=True)
    again, _ = play(tmp_path, [task], fails=True)
    versions = nomad.job("broken")["Version"]
    nomad.stop("broken", purge=True)

    assert "solo: task say is dead" in failed["msg"]
    assert "no such model" in failed["msg"]
    assert again["failed"]
    assert versions == 1


def test_job_is_shown_whole_where_nobody_answers_yet(tmp_path: Path) -> None:
    """On a virgin cluster `--check --diff` shows what there will be, and that it lacks what is not
    wanted."""
    file = tmp_path / "virgin.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "virgin"))
    nobody = {"url": "http://127.0.0.1:9"}
    task = {"nomad_job": {**nobody, "src": str(file)}}
    gone = {"nomad_job": {**nobody, "job": "virgin", "state": "absent"}}

    looked, without, output = play(tmp_path, [task, gone], "--check", "--diff")

    assert (looked["changed"], looked["job"]) == (True, "virgin")
    assert not without["changed"]
    assert "+    task" in output


def test_secret_reaches_nomad_and_no_screen(
    nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """A key is written once, and neither result, diff nor log shows it."""
    items = {"api_key": SECRET, "port": 8080}
    task = {"nomad_variable": _asks(nomad_server, path="nomad/jobs/keys", items=items)}
    gone = {"nomad_variable": _asks(nomad_server, path="nomad/jobs/keys", state="absent")}

    looked, _ = play(tmp_path, [task], "--check")
    first, second, output = play(tmp_path, [task, task], "--diff", "-vvv")
    stored = nomad.variable("nomad/jobs/keys")[1]
    removed, nothing, _ = play(tmp_path, [gone, gone])

    assert looked["changed"]
    assert (first["changed_items"], second["changed"]) == (["api_key", "port"], False)
    assert stored == {"api_key": SECRET, "port": "8080"}
    assert (removed["changed"], nothing["changed"]) == (True, False)
    assert SECRET not in output
