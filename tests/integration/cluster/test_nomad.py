"""The client of Nomad against a real one, with access control and TLS."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.cluster.acl.bootstrap import bootstrap_nomad
from hearth.cluster.errors import BootstrapLost, Conflict, Denied, NotFound, Untrusted
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, nomad_agent, wait_for
from tests.integration.cluster.conftest import NOMAD_TOKEN

pytestmark = pytest.mark.nomad

STRANGER = "e0000000-1111-4222-8333-444444444444"
TEMPLATE = """
job "template" {
  type = "batch"
  parameterized {
    payload       = "optional"
    meta_optional = ["who"]
  }
  group "one" {
    task "run" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}
"""
FRAGILE = """
job "fragile" {
  update {
    max_parallel = 0
  }
  group "one" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts       = 1
      interval       = "24h"
      delay          = "5s"
      delay_function = "constant"
      unlimited      = false
    }
    task "run" {
      driver       = "raw_exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -e FILE && sleep 600"]
      }
    }
  }
}
"""


def test_server_of_another_authority_is_not_trusted(nomad_server: Agent) -> None:
    """python-nomad does not look at certificates unless it is told to."""
    unknown = replace(nomad_server.endpoint, ca_file=None)

    with Nomad(unknown) as nomad, pytest.raises(Untrusted, match="cannot be trusted"):
        nomad.jobs()


def test_environment_neither_gives_nor_replaces_a_token(
    nomad_server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that was used for another cluster must not decide what we may do."""
    for name in ("NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION"):
        monkeypatch.setenv(name, STRANGER)
    monkeypatch.setenv("NOMAD_ADDR", "http://127.0.0.1:9")

    with Nomad(nomad_server.known_as(NOMAD_TOKEN)) as known:
        assert known.nodes()[0].name == "solo"

    monkeypatch.setenv("NOMAD_TOKEN", NOMAD_TOKEN)
    with Nomad(nomad_server.endpoint) as anonymous, pytest.raises(Denied):
        anonymous.nodes()


def test_dispatch_with_one_token_starts_one_instance(nomad: Nomad) -> None:
    """A call that is sent again after a lost answer must not run the work twice."""
    jobs = Jobs(nomad)
    jobs.register(jobs.plan(Source("template", TEMPLATE)))

    first = nomad.dispatch("template", payload=b"x", meta={"who": "a"}, idempotency_token="same")
    second = nomad.dispatch("template", payload=b"x", meta={"who": "a"}, idempotency_token="same")
    third = nomad.dispatch("template", payload=b"x", meta={"who": "a"}, idempotency_token="other")

    assert first == second
    assert third != first


def test_forced_reschedule_revives_a_job_without_attempts_left(
    nomad: Nomad, nomad_server: Agent, tmp_path: Path
) -> None:
    """Healing a dead job must need neither a changed file nor a purge."""
    jobs, file = Jobs(nomad), tmp_path / "there"
    jobs.register(jobs.plan(Source("fragile", FRAGILE.replace("FILE", str(file)))))
    wait_for(lambda: _states(nomad) == ["failed", "failed"], nomad_server)
    file.touch()

    nomad.evaluate("fragile")
    time.sleep(2)
    unforced = _states(nomad)
    nomad.evaluate("fragile", force_reschedule=True)
    wait_for(lambda: any(a.runs for a in nomad.allocations("fragile")), nomad_server)

    assert unforced == ["failed", "failed"]
    nomad.stop("fragile", purge=True)


def _states(nomad: Nomad) -> list[str]:
    return [allocation.client_status for allocation in nomad.allocations("fragile")]


def test_blocking_query_returns_when_a_job_appears(nomad: Nomad) -> None:
    """The status page shows a new job at once, without asking again and again."""
    index = nomad.block("jobs", 0, wait=1).index
    jobs = Jobs(nomad)
    plan = jobs.plan(Source("late", TEMPLATE.replace('"template"', '"late"')))
    timer = threading.Timer(0.5, jobs.register, [plan])
    timer.start()

    started = time.monotonic()
    answer = nomad.block("jobs", index, wait=60)
    while "late" not in [row["ID"] for row in answer.value]:  # Other jobs wake us, too.
        answer = nomad.block("jobs", answer.index, wait=60)
    timer.join()

    assert answer.index > index
    assert "late" in [row["ID"] for row in answer.value]
    assert time.monotonic() - started < 50


def test_variable_is_written_only_over_what_was_read(nomad: Nomad) -> None:
    """Of two writers one is told, instead of one being undone."""
    with pytest.raises(NotFound):
        nomad.variable("nomad/jobs/nobody")
    nomad.put_variable("nomad/jobs/x", {"key": "1"})
    index, items = nomad.variable("nomad/jobs/x")

    with pytest.raises(Conflict):
        nomad.put_variable("nomad/jobs/x", {"key": "2"}, index=index - 1)

    assert items == {"key": "1"}
    assert nomad.variable("nomad/jobs/x") == (index, items)


def test_bootstrap_takes_our_secret_and_tells_how_to_reset(tmp_path: Path) -> None:
    """The token was written down first; a lost one comes back by the recipe's exact words."""
    with nomad_agent(tmp_path, client=False) as agent:
        assert bootstrap_nomad(agent.endpoint, STRANGER, write=False)
        assert bootstrap_nomad(agent.endpoint, STRANGER)
        assert not bootstrap_nomad(agent.endpoint, STRANGER)

        with pytest.raises(BootstrapLost, match=r"echo \d+ > /var/lib/nomad/server/") as caught:
            bootstrap_nomad(agent.endpoint, NOMAD_TOKEN)
        index = caught.value.recipe.partition("echo ")[2].split()[0]
        (agent.data / "server" / "acl-bootstrap-reset").write_text(index)

        assert bootstrap_nomad(agent.endpoint, NOMAD_TOKEN)
        assert not bootstrap_nomad(agent.endpoint, STRANGER)
