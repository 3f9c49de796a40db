"""A second Hearth on the same machine, started and stopped as the tutorial says."""

import dataclasses
import os
import signal
import subprocess
import time

import httpx2
import pytest

from tests.acceptance.conftest import Instance
from tests.shown import Shown

EXTENDED_INPUTS = ["bootstrap.sh", "docs/tutorial.md", "hearth/local/*"]
pytestmark = pytest.mark.extended
SECONDS = 600


def test_second_hearth_runs_beside_the_first(instance: Instance, shown: Shown) -> None:
    """One to live with and one to try things on."""
    log = instance.place.home / "second-run.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", shown.take("docs/tutorial.md")], cwd=instance.place.checkout,
            env=instance.place.environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + SECONDS
        while "curl" not in log.read_text(encoding="utf-8") and process.poll() is None:
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.2)
        healths = [
            httpx2.get(f"http://127.0.0.1:{port}/health", timeout=60) for port in (8000, 9000)
        ]
        keys = [
            place / "key" for place in (instance.place.state, instance.place.home / "hearth-two")
        ]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    ended = process.wait(180)

    assert ended in (0, 130), log.read_text(encoding="utf-8")
    assert [health.status_code for health in healths] == [200, 200]
    assert keys[0].read_bytes() != keys[1].read_bytes()
    assert httpx2.get(f"{instance.web}/health", timeout=60).status_code == 200


def test_down_stops_what_runs_in_the_background(instance: Instance, shown: Shown) -> None:
    """Whoever closed the terminal can still stop it, with the command of the tutorial."""
    home = instance.place.home / "somebody-else"
    home.mkdir()
    (home / ".cache").symlink_to(instance.place.home / ".cache")
    place = dataclasses.replace(instance.place, home=home)
    command = "./bootstrap.sh", "--run-local", "--detach", "--port-base", "9100"
    assert place.run(*command).returncode == 0
    running = place.run("hearth", "status")

    down = place.run("bash", "-euc", shown.take("docs/tutorial.md"))

    assert running.returncode == 0
    assert (down.returncode, down.stdout) == (0, "Stopped.\n")
    assert place.run("hearth", "status").returncode == 3
    assert instance.place.run("hearth", "status").returncode == 0
