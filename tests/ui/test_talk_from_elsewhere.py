"""The Talk page from another machine of the house: by TLS, with the authority of the cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserType, Error, Page, expect

from hearth.cluster.certificates import issue, make_authority
from hearth.lab.programs import NAMESPACES, run
from tests.integration.agent.conftest import House
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.speech.conftest import Speech, end
from tests.ui.conftest import CHROMIUM, sign_in
from tests.ui.talking import (
    CAPTURE,
    LOUD,
    PATIENCE,
    becomes,
    loudness,
    microphone,
    speech,
    speech_models,
    to_talk,
    waits_for,
    with_microphone,
)

__all__ = ["microphone", "speech", "speech_models"]

ANSWER = "It is Paris."


@dataclass(frozen=True)
class Machine:
    """Another machine: a network namespace, with an address and a loopback of its own, and a cable
    to this machine. Nothing else can be reached from there.
    """

    name: str
    address: str
    agent: str
    """The address of this machine at the other end of the cable."""

    def plug(self) -> None:
        run("ip", "netns", "add", self.name)
        cable = f"t{os.getpid()}"
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "address", "add", f"{self.agent}/30", "dev", cable)
        run("ip", "link", "set", cable, "up")
        there = "ip", "-n", self.name
        run(*there, "address", "add", f"{self.address}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            run(*there, "link", "set", device, "up")

    def lose_udp(self) -> None:
        """A firewall that lets the web through, and nothing else."""
        run("ip", "-n", self.name, "rule", "add", "blackhole", "ipproto", "udp")

    def chromium(self, folder: Path) -> Path:
        """The program that starts a browser there."""
        program = folder / "chromium"
        inside = f"nsenter --net={NAMESPACES / self.name}"
        program.write_text(f'#!/bin/sh\nexec {inside} {CHROMIUM} "$@"\n', encoding="ascii")
        program.chmod(0o755)
        return program


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine in the same network as this one; its addresses, of RFC 2544, are nobody's."""
    network = f"198.18.{os.getpid() % 256}"
    machine = Machine(f"hearth-talk-{os.getpid()}", f"{network}.2", f"{network}.1")
    machine.plug()
    try:
        yield machine
    finally:
        run("ip", "netns", "delete", machine.name)


@pytest.fixture
def authority(
    house: House, speech: Speech, machine: Machine, tmp_path: Path
) -> Iterator[tuple[str, Path]]:
    """Where the agent speaks TLS for the whole network, and the file of its authority as the guide
    says that people fetch it."""
    port = free_port_base()
    home = make_authority("Hearth home")
    pair = issue(home, "machine1", [machine.agent])
    files = {"ca": home.certificate, "cert": pair.certificate, "key": pair.key}
    for name, text in files.items():
        (tmp_path / f"{name}.pem").write_text(text, encoding="ascii")
    (house.state / "service_key").write_text(speech.key_file.read_text("ascii"), "ascii")
    services = {"moe-gateway": house.gateway, "speech-stt": speech.stt, "speech-tts": speech.tts}
    environment = os.environ | house.environment() | {
        "PIPECATAPP_HOST": "0.0.0.0",
        "PIPECATAPP_PORT": str(port),
        "PIPECATAPP_SERVICES": json.dumps(services),
        **{f"PIPECATAPP_TLS_{n.upper()}_FILE": str(tmp_path / f"{n}.pem") for n in files},
    }  # fmt: skip
    agent = subprocess.Popen([sys.executable, "-P", "-m", "pipecatapp"], env=environment)
    try:
        wait_for(lambda: answers(port), "the agent answers", 120)
        file = tmp_path / "fetched.crt"
        told = httpx2.get(f"https://127.0.0.1:{port}/ca.crt", verify=False, trust_env=False)
        file.write_bytes(told.raise_for_status().content)
        assert file.read_text(encoding="ascii") == home.certificate
        yield f"https://{machine.agent}:{port}", file
    finally:
        end(agent)


def answers(port: int) -> bool:
    """By plain HTTP it shows the way to TLS."""
    try:
        found = httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False)
    except httpx2.TransportError:
        return False
    return found.status_code == 308


@pytest.mark.hosts
def test_device_that_trusts_the_house_talks_with_it(
    browser: Browser,
    house: House,
    microphone: Path,
    machine: Machine,
    authority: tuple[str, Path],
    tmp_path: Path,
) -> None:
    """Without the authority the browser warns and gives no page; with it, it gives a microphone,
    also to who typed `http`. Nothing of the browser's own judgement is switched off. Sound goes
    between the two machines alone; where a firewall keeps it from that, by the page's connection.
    """
    address, ca = authority
    house.model.when("capital of").say(ANSWER)
    chromium, trusting = machine.chromium(tmp_path), tmp_path / "home"
    with ExitStack() as stack:
        stranger = entered(stack, browser.browser_type, chromium, microphone, tmp_path / "stranger")
        with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
            stranger.goto(address)

        subprocess.run([sys.executable, "-m", "tests.ui.trusting", trusting, ca], check=True)
        page = entered(stack, browser.browser_type, chromium, microphone, trusting)
        asked, played = hosts_asked(page), loudness(page, "framereceived")
        page.goto(address.replace("https", "http"))
        assert page.url.startswith(address)
        sign_in(page, house.key)
        page.get_by_test_id("composer").wait_for()
        talks(page, way="webrtc")
        assert page.evaluate("isSecureContext")
        assert page.evaluate("captured.way()") == [machine.address, machine.agent]
        waits_for(page, lambda: loudest_of_call(page) > LOUD)
        assert max(played, default=0) == 0

        machine.lose_udp()
        page.reload()
        talks(page, way="websocket")
        waits_for(page, lambda: max(played, default=0) > LOUD)
        assert asked == {urlsplit(address).hostname}


def hosts_asked(page: Page) -> set[str | None]:
    """Of all that the page asks from now on."""
    asked = set[str | None]()
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname))
    page.on("websocket", lambda socket: asked.add(urlsplit(socket.url).hostname))
    return asked


def loudest_of_call(page: Page) -> float:
    """Of all that came by WebRTC so far."""
    return max((played for _, played in page.evaluate("captured.loudness()")), default=0)


def talks(page: Page, way: str) -> None:
    """Somebody asks aloud and is answered aloud."""
    to_talk(page).get_by_test_id("talk-start").click()
    turn = page.locator(".talk-turn").filter(has_text="capital of France").first
    expect(turn.get_by_test_id("talk-answer")).to_have_text(ANSWER, timeout=PATIENCE)
    becomes(page, "speaking")
    assert page.locator("talk-page").get_attribute("data-way") == way


def entered(
    stack: ExitStack, kind: BrowserType, chromium: Path, microphone: Path, home: Path
) -> Page:
    """A browser of somebody whose home is that folder; there stands what it trusts."""
    home.mkdir(exist_ok=True)
    browser = kind.launch(
        executable_path=chromium,
        args=with_microphone(microphone),
        env={**os.environ, "HOME": str(home)},
    )
    stack.callback(browser.close)
    page = browser.new_page()
    page.add_init_script(path=CAPTURE)
    return page
