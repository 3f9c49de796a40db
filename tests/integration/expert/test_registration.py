"""The entry in Consul, against answers that a real agent gives seldom."""

import asyncio
from typing import Any

import pytest

from hearth.cluster.testing import ScriptedAgent
from hearth.cluster.watch import ConsulAgent
from llama_expert.registration import Registration


@pytest.mark.parametrize("odd", [None, [], {"Meta": None}, {"ID": "x"}])
async def test_answer_that_is_no_entry_does_not_end_the_keeping(odd: Any) -> None:
    """An expert that gave up would serve nobody, and nothing would say why."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/agent/service/x", odd)
        agent.answer("GET", "/v1/agent/service/x", "unknown", status=404)
        agent.answer("PUT", "/v1/agent/service/register", None)
        agent.answer("PUT", "/v1/agent/service/deregister/x", None)
        body: dict[str, Any] = {"ID": "x", "Meta": {}}

        async with asyncio.timeout(60), Registration(ConsulAgent(agent.url), body).kept():
            while not any(one.method == "PUT" for one in agent.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    assert agent.requests[-1].path == "/v1/agent/service/deregister/x"
