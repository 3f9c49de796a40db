"""Requests to a running `hearth up`, as the agent and `hearth models use` send them."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.service.control import ControlFailed, Request, send
from hearth.service.state import read_instance
from tests.integration.local.conftest import Tiny, wait_for
from tests.rules.tree import ROOT


def test_one_service_is_restarted_and_the_instance_file_tells_it(tiny: Tiny) -> None:
    """The page restarts a service, and the next look must find its new process."""
    up = tiny.start()
    before = {one.name: one.pid for one in tiny.running().services}
    control = tiny.running().control
    assert control is not None

    send(control, Request(action="restart", name="moe-gateway"))

    instance = wait_for(lambda: read_instance(tiny.state), "it runs")
    after = {one.name: one.pid for one in instance.services}
    assert [name for name in after if after[name] != before[name]] == ["moe-gateway"]
    log = (tiny.state.logs / "moe-gateway.log").read_text(encoding="utf-8")
    assert "hearth: restarting it, as requested" in log
    up.send(signal.SIGINT)
    assert up.ended() == 0
    tiny.assert_nothing_left()
    assert not control.parent.exists()


def test_wrong_requests_are_answered_with_a_sentence(tiny: Tiny) -> None:
    """What a person asks for on the page and cannot have is told there."""
    up = tiny.start()
    control = tiny.running().control
    assert control is not None

    with pytest.raises(ControlFailed, match="There is no service 'gateway': choose one of"):
        send(control, Request(action="restart", name="gateway"))
    with pytest.raises(ControlFailed, match="has no expert whose model can be changed"):
        send(control, Request(action="serve", name="smollm2"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(b"nonsense\n")
        assert b"The request is not valid." in connection.recv(4096)

    up.send(signal.SIGINT)
    assert up.ended() == 0
    with pytest.raises(ControlFailed, match="`hearth up` does not answer: No such file"):
        send(control, Request(action="restart", name="pipecatapp"))


def test_models_use_asks_the_instance_that_runs(tiny: Tiny) -> None:
    """The tiny instance has no expert, and its refusal is what the command prints."""
    model = Catalogue.load()[FALLBACK]
    weights = pull(model, ModelStore(ROOT / ".cache" / "models"))
    folder = ModelStore(tiny.state.models).folder(model)
    folder.mkdir(parents=True)
    for file in weights.parent.iterdir():
        os.link(file, folder / file.name)
    up = tiny.start()
    tiny.running()

    command = [sys.executable, "-m", "hearth", "models", "use", FALLBACK, "--state-dir"]
    ended = subprocess.run(
        [*command, str(tiny.state.root)], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert ended.stderr.strip() == "This instance has no expert whose model can be changed."
    assert not (tiny.state.root / "expert.json").exists()
    up.send(signal.SIGINT)
    assert up.ended() == 0
