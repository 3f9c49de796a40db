"""Every kind of service that tests stand on, real, in one of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import psutil
import pytest

from hearth.openai_api.client import ModelClient
from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Engine, Ledger, load_document
from tests.integration.expert.conftest import embedded, model_store
from tests.integration.expert.running import KEY, Starter
from tests.integration.local.conftest import wait_for
from tests.integration.mcp.conftest import Run, kitchen, until
from tests.ports import free_port

__all__ = ["embedded", "model_store"]
DOCUMENT = """
kind: workflow
id: everything
about: One step for each kind of service.
inputs: {model: text}
steps:
  - {id: said, use: llm, with: {model: "{{ inputs.model }}", max_tokens: 16,
     messages: [{role: user, content: "What is six times seven?"}]}}
  - {id: heat, use: mcp/kitchen/degrees, with: {oven: big}}
  - id: ran
    use: code.run
    with:
      code: |
        import os, sys
        print(os.getpid() < 100, os.path.exists("/etc/shadow"), len(sys.stdin.read()) > 0)
      stdin: "{{ said.text }}"
outputs:
  said: "{{ said.text }}"
  heat: "{{ heat.data.result }}"
  ran: "{{ ran.stdout }}"
"""


@contextmanager
def scripted(folder: Path) -> Iterator[tuple[str, int]]:
    """A scripted model server as a process on loopback: its address, its process."""
    (folder / "rules.json").write_text(json.dumps([{"when": "six times", "say": "Forty-two."}]))
    port = free_port()
    program = [sys.executable, "-m", "hearth.openai_api.scripted", str(folder / "rules.json")]
    process = subprocess.Popen([*program, "--port", str(port)])
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{address}/health", trust_env=False).is_success
        except httpx2.TransportError:
            return False

    try:
        wait_for(answers, "the scripted server answers", 120)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(120)


@pytest.mark.proves("001-02")
async def test_engine_scripted_server_sandbox_and_mcp_server_are_real_and_stop(
    embedded: Starter, run: Run, tmp_path: Path
) -> None:
    """A test that stands on something acted shows nothing of the thing itself."""
    ledger = Ledger(tmp_path / "ledger.db")
    pids: list[int] = []
    answers: dict[str, dict[str, str]] = {}
    with embedded.running() as expert, scripted(tmp_path) as (address, pid):
        pids += [expert.process.pid, expert.engine_process().pid, pid]
        for name, url in (("engine", str(expert.client.base_url)), ("scripted", address)):
            async with (
                ModelClient(f"{url.rstrip('/')}/v1", KEY) as client,
                run(kitchen=kitchen(tmp_path / "orders")) as servers,
                Engine(
                    ledger,
                    tools=TOOLS.values(),
                    workflows=[load_document(DOCUMENT, file="everything.yaml")],
                    services={ModelClient: client, Sandbox: Sandbox()},
                ) as engine,
            ):
                await until(partial(servers.tools.get, "mcp/kitchen/degrees"))
                engine.learn(servers.tools.values())
                pids.append(servers.pid("kitchen"))
                ended = await engine.wait(await engine.start("everything", {"model": "smollm2"}))
                assert ended.status == "done", ended
                answers[name] = ended.outputs
        assert all(psutil.pid_exists(pid) for pid in pids[:3])
    ledger.close()

    assert answers["scripted"]["said"] == "Forty-two."
    assert answers["engine"]["said"] not in ("", "Forty-two.")
    for name, kitchen_pid in zip(("engine", "scripted"), pids[3:], strict=True):
        assert answers[name]["heat"] == f"big: 180, asked of process {kitchen_pid}"
        assert answers[name]["ran"] == "True False True\n"
    assert not any(psutil.pid_exists(pid) for pid in pids)
