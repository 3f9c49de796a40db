"""Answers that a real agent gives seldom, or only in another version."""

from dataclasses import replace

import pytest

from hearth.cluster.acl.bootstrap import bootstrap_consul, bootstrap_nomad
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import ARGUMENTS, Answer, Endpoint, endpoint_of
from hearth.cluster.errors import BootstrapLost, NoLeader, Refused, Unreachable
from hearth.cluster.nomad import Nomad
from hearth.cluster.testing import ScriptedAgent

SECRET = "c0000000-1111-4222-8333-444444444444"


def test_newer_consul_takes_our_secret_in_one_step() -> None:
    """From 1.14 on Consul can be told its first token; nothing is replaced then."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", "ACL not found", status=403)
        agent.answer("PUT", "/v1/acl/bootstrap", {"SecretID": SECRET, "AccessorID": "a"})

        assert bootstrap_consul(Endpoint(agent.url), SECRET)

    assert [r.path for r in agent.requests] == ["/v1/acl/token/self", "/v1/acl/bootstrap"]
    assert agent.requests[1].body == {"BootstrapSecret": SECRET}
    assert "X-Consul-Token" not in agent.requests[1].headers


def test_first_election_is_waited_for() -> None:
    """Three servers that start at once take up to a minute to agree on a leader."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", "No cluster leader", status=500)
        agent.answer("GET", "/v1/acl/token/self", {"AccessorID": "a"})

        assert not bootstrap_nomad(Endpoint(agent.url), SECRET)

    assert len(agent.requests) == 2


def test_bootstrap_is_repeated_until_a_new_leader_has_its_policies() -> None:
    """Right after an election Consul does not know the policy of its first token yet."""
    missing = (
        "failed inserting bootstrap token: No such policy with ID"
        " 00000000-0000-0000-0000-000000000001"
    )
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", "ACL token not found", status=403)
        agent.answer("PUT", "/v1/acl/bootstrap", missing, status=500)
        agent.answer("PUT", "/v1/acl/bootstrap", {"SecretID": SECRET, "AccessorID": "a"})

        assert bootstrap_consul(Endpoint(agent.url), SECRET)

    assert [r.path for r in agent.requests].count("/v1/acl/bootstrap") == 2


@pytest.mark.parametrize("lost", ["rpc error: EOF", "rpc error making call: EOF"])
def test_read_is_repeated_where_the_connection_to_the_leader_was_closed(lost: str) -> None:
    """A leader that reads its new certificate closes the connections of the other servers."""
    with ScriptedAgent() as agent, Nomad(Endpoint(agent.url, leader_timeout=60)) as nomad:
        agent.answer("GET", "/v1/jobs", lost, status=500)
        agent.answer("GET", "/v1/jobs", [])
        agent.answer("PUT", "/v1/var/x", lost, status=500)

        assert nomad.jobs() == []
        # The leader may have written it before the connection was closed.
        with pytest.raises(Refused, match=lost):
            nomad.put_variable("x", {"a": "b"})

    assert [r.method for r in agent.requests] == ["GET", "GET", "PUT"]


def test_question_to_servers_without_a_leader_is_asked_again() -> None:
    """A server restarts while jobs are planned: an upgrade goes on where it was."""
    with ScriptedAgent() as agent, Nomad(Endpoint(agent.url, leader_timeout=60)) as nomad:
        agent.answer("GET", "/v1/jobs", "rpc error: No cluster leader", status=500)
        agent.answer("GET", "/v1/jobs", "Not ready to serve consistent reads", status=500)
        ended = "rpc error: failed to get conn: dial tcp 10.0.0.2:4647: connect: connection refused"
        agent.answer("GET", "/v1/jobs", ended, status=500)
        agent.answer("GET", "/v1/jobs", [])

        assert nomad.jobs() == []

    assert len(agent.requests) == 4


def test_tasks_of_playbooks_wait_for_a_leader() -> None:
    """Services ask again by themselves; a task that failed ends the whole run."""
    given = {name: option.get("default") for name, option in ARGUMENTS.items()}

    assert endpoint_of(given | {"url": "http://10.0.0.1:4646"}).leader_timeout >= 60
    assert Endpoint("http://10.0.0.1:4646").leader_timeout == 0


def test_lack_of_a_leader_is_told_with_the_remedy_at_the_end() -> None:
    """Who waits for ever does not learn that two machines are off."""
    with ScriptedAgent() as agent, Nomad(Endpoint(agent.url, leader_timeout=0.6)) as nomad:
        agent.answer("GET", "/v1/jobs", "No cluster leader", status=500)

        with pytest.raises(NoLeader, match="see `systemctl status nomad consul` on each"):
            nomad.jobs()

    assert len(agent.requests) > 1


def test_job_that_servers_may_have_taken_is_not_sent_again() -> None:
    """The leader was lost while it wrote: only a new plan tells whether it did."""
    with ScriptedAgent() as agent, Nomad(Endpoint(agent.url, leader_timeout=60)) as nomad:
        said = "leadership lost while committing log"
        agent.answer("PUT", "/v1/var/x", said, status=500)

        with pytest.raises(Refused, match=said):
            nomad.put_variable("x", {"a": "b"})

    assert len(agent.requests) == 1


def test_switched_off_access_control_is_said_in_the_words_of_the_agent() -> None:
    """Then there is nothing to set up, and the inventory is what has to change."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", "ACL support disabled", status=401)

        with pytest.raises(Refused, match="401: ACL support disabled"):
            bootstrap_consul(Endpoint(agent.url), SECRET)


def test_lost_bootstrap_names_the_leader() -> None:
    """The file with the number is read by the leader, and by no other server."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", "ACL token not found", status=403)
        agent.answer("POST", "/v1/acl/bootstrap", "already done (reset index: 7)", status=400)
        agent.answer("GET", "/v1/status/leader", "10.0.0.3:4647")

        with pytest.raises(BootstrapLost, match=r"leader \(10\.0\.0\.3:4647\): `echo 7 > "):
            bootstrap_nomad(Endpoint(agent.url), SECRET)


def test_index_that_went_backwards_starts_anew() -> None:
    """After a restore from a backup the old index would be waited for in vain."""
    with ScriptedAgent() as agent, Consul(Endpoint(agent.url)) as consul:
        agent.answer("GET", "/v1/health/service/x", [], X_Consul_Index="5")

        assert consul.block("health/service/x", 90, wait=1) == Answer(0, [])


def test_idempotency_token_goes_where_nomad_reads_it() -> None:
    """In the body, where python-nomad puts it, Nomad never sees it."""
    with ScriptedAgent() as agent, Nomad(Endpoint(agent.url)) as nomad:
        agent.answer("POST", "/v1/job/x/dispatch", {"DispatchedJobID": "x/dispatch-1"})
        nomad.dispatch("x", idempotency_token="once")

    assert agent.requests[0].query == {"idempotency_token": "once"}
    assert "once" not in str(agent.requests[0].body)


def test_redirect_is_not_followed_with_our_token() -> None:
    """A page that is not an agent must not be handed the key of the cluster."""
    with ScriptedAgent() as elsewhere, ScriptedAgent() as agent:
        agent.answer("GET", "/v1/jobs", {}, status=307, Location=f"{elsewhere.url}/v1/jobs")

        with Nomad(replace(Endpoint(agent.url), token=SECRET)) as nomad, pytest.raises(Refused):
            nomad.jobs()

    assert elsewhere.requests == []


def test_page_of_another_server_is_no_answer_of_an_agent() -> None:
    """A proxy in between says 200 and "please log in": who asks wants the address in the error."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/acl/token/self", b"<html>Log in</html>")

        with (
            pytest.raises(Unreachable, match="its response is not JSON"),
            Consul(Endpoint(agent.url)) as consul,
        ):
            consul.session.call("GET", "acl/token/self")
