"""Jobs on a real Nomad: planned, registered as planned, waited for, explained when they fail."""

from pathlib import Path

import pytest

from hearth.cluster.errors import Conflict, JobFailed, JobInvalid
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.jobs.failure import explain
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, wait_for

pytestmark = pytest.mark.nomad

SERVICE = """
variable "words" {
  type        = string
  default     = "hello"
  description = "What it says."
}
variable "seconds" {
  type    = number
  default = 600
}
variable "tags" {
  type    = list(string)
  default = []
}
job "NAME" {
  update {
    min_healthy_time  = "1s"
    healthy_deadline  = "60s"
    progress_deadline = "0s"
  }
  meta { tags = join(",", var.tags) }
  group "speaker" {
    restart {
      attempts = 0
      mode     = "fail"
      interval = "10s"
      delay    = "1s"
    }
    reschedule {
      attempts       = 1
      interval       = "24h"
      delay          = "5s"
      delay_function = "constant"
      unlimited      = false
    }
    task "say" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo \\"$WORDS\\" >&2; sleep ${var.seconds}; exit 3"]
      }
      env { WORDS = var.words }
      kill_timeout = "1s"
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
"""


def _source(name: str, **variables: object) -> Source:
    return Source(f"nomad_jobs/{name}.nomad.hcl", SERVICE.replace("NAME", name), variables)


def test_new_job_is_planned_whole_registered_and_waited_for(nomad: Nomad) -> None:
    """A person sees everything that will be started before it is."""
    jobs = Jobs(nomad)

    words = r'é "${x}" %{y} C:\bin\f'
    plan = jobs.plan(_source("whole", words=words, tags=["a", "b"]))
    jobs.register(plan)
    running = jobs.wait(plan.id, timeout=60)
    again = jobs.plan(_source("whole", words=words, tags=["a", "b"]))

    assert (plan.changed, plan.before, plan.index) == (True, "", 0)
    assert 'task "say"' in plan.after
    assert f'WORDS = "{words}"' in plan.after.replace("Env[WORDS]", "WORDS")
    assert [allocation.node for allocation in running] == ["solo"]
    assert (again.changed, again.before, again.after) == (False, "", "")


def test_changed_variable_shows_as_one_line(nomad: Nomad) -> None:
    """The diff tells exactly what a changed inventory will do."""
    jobs = Jobs(nomad)
    first = jobs.plan(_source("edited"))
    jobs.register(first)
    jobs.wait(first.id, timeout=60)

    plan = jobs.plan(_source("edited", words="bye"))

    before, after = plan.before.splitlines(), plan.after.splitlines()
    assert plan.changed
    assert [line.strip() for line in before if line not in after] == ['Env[WORDS] = "hello"']
    assert [line.strip() for line in after if line not in before] == ['Env[WORDS] = "bye"']


def test_plan_that_was_overtaken_is_not_registered(nomad: Nomad) -> None:
    """Two people at two controllers never undo each other's work unseen."""
    jobs = Jobs(nomad)
    mine = jobs.plan(_source("overtaken", words="mine"))
    jobs.register(jobs.plan(_source("overtaken", words="theirs")))

    with pytest.raises(Conflict, match="somebody else changed it"):
        jobs.register(mine)


def test_failing_task_is_explained_with_machine_cause_and_log(nomad: Nomad) -> None:
    """Nobody should have to log in to a machine to learn why a job does not run."""
    jobs = Jobs(nomad)
    plan = jobs.plan(_source("failing", words="there is no such model", seconds=0))
    jobs.register(plan)

    with pytest.raises(JobFailed) as caught:
        jobs.wait(plan.id, timeout=60)

    told = str(caught.value)
    assert "The job failing was not deployed" in told
    assert "solo: task say is dead" in told
    assert "Exit Code: 3" in told
    assert "there is no such model" in told
    assert "nomad alloc logs -stderr" in told


def test_log_that_the_machine_has_deleted_is_reported_as_missing(nomad: Nomad) -> None:
    """Nomad deletes what failed when a disk is 80 % full, while a person looks for the cause."""
    jobs = Jobs(nomad)
    plan = jobs.plan(_source("forgotten", words="there is no such model", seconds=0))
    jobs.register(plan)
    with pytest.raises(JobFailed):
        jobs.wait(plan.id, timeout=60)
    failed = nomad.allocations("forgotten")[0]

    nomad.session.call("PUT", f"client/allocation/{failed.id}/gc")

    text = "\n".join(explain(nomad, nomad.allocation(failed.id)))
    assert "Exit Code: 3" in text
    assert "Its log cannot be read. " in text
    assert "there is no such model" not in text


def test_task_that_runs_and_is_not_healthy_in_time_shows_its_log(
    nomad: Nomad, nomad_server: Agent
) -> None:
    """A wait that ends with nothing but its length leaves a person without a beginning."""
    slow = SERVICE.replace('min_healthy_time  = "1s"', 'min_healthy_time  = "50s"')
    jobs, source = Jobs(nomad), Source("slow", slow.replace("NAME", "slow"), {"words": "loading"})
    plan = jobs.plan(source)
    jobs.register(plan)
    wait_for(lambda: [a.runs for a in nomad.allocations("slow")] == [True], nomad_server)

    with pytest.raises(JobFailed, match="did not become healthy within 3 s") as caught:
        jobs.wait(plan.id, timeout=3)

    told = str(caught.value)
    assert "solo: allocation" in told
    assert "runs, but its checks have not passed" in told
    assert "    loading" in told
    nomad.stop("slow", purge=True)


def test_job_whose_deployment_failed_is_revived_as_it_is(nomad: Nomad, tmp_path: Path) -> None:
    """Once its cause is gone, a dead job comes back without a changed file and without a purge."""
    hcl = SERVICE.replace("NAME", "revived").replace("echo", f"test -e {tmp_path}/there || exit 1;")
    jobs, source = Jobs(nomad), Source("revived", hcl)
    plan = jobs.plan(source)
    jobs.register(plan)
    with pytest.raises(JobFailed):
        jobs.wait(plan.id, timeout=60)
    (tmp_path / "there").touch()

    jobs.reschedule("revived")

    assert [a.node for a in jobs.wait(plan.id, timeout=60)] == ["solo"]
    assert not jobs.plan(source).changed


def test_job_that_no_machine_takes_says_what_it_lacks(nomad: Nomad) -> None:
    """Waiting for a machine that never comes must end with the reason."""
    greedy = SERVICE.replace("memory = 16", "memory = 99999999").replace("NAME", "greedy")
    jobs = Jobs(nomad)
    plan = jobs.plan(Source("greedy", greedy))
    jobs.register(plan)

    with pytest.raises(JobFailed, match="No machine takes the group speaker: not enough memory"):
        jobs.wait(plan.id, timeout=8)
    assert plan.unplaced == {"speaker": "not enough memory on 1"}
    nomad.stop("greedy", purge=True)


def test_system_job_is_waited_for(nomad: Nomad) -> None:
    """System jobs have no count: they are done when they run on every machine."""
    everywhere = SERVICE.replace('job "NAME" {', 'job "everywhere" {\n  type = "system"')
    start, end = everywhere.index("    reschedule {"), everywhere.index("    task")
    everywhere = everywhere[:start] + everywhere[end:]
    jobs = Jobs(nomad)
    plan = jobs.plan(Source("everywhere", everywhere))
    jobs.register(plan)

    assert [a.node for a in jobs.wait(plan.id, timeout=60)] == ["solo"]
    assert not jobs.plan(Source("everywhere", everywhere)).changed


@pytest.mark.parametrize(
    ("hcl", "variables", "words"),
    [
        ('job "x" {', {}, "Failed to parse job"),
        ('job "x" {\ngroup "g" {\ntask "t" {\n}\n}\n}', {}, "Missing task driver"),
        ('variable "words" {}\njob "x" {}', {"wrods": 1}, "Did you mean words"),
        ('job "x" {\ngroup "g" {}\n}', {}, "Missing tasks"),
    ],
)
def test_invalid_job_names_file_and_reason(
    nomad: Nomad, hcl: str, variables: dict[str, object], words: str
) -> None:
    """A mistake in a job's file is found before anything is changed."""
    with pytest.raises(JobInvalid, match=words) as caught:
        Jobs(nomad).plan(Source("nomad_jobs/x.nomad.hcl", hcl, variables))

    assert str(caught.value).startswith("nomad_jobs/x.nomad.hcl is not a valid job")
