"""The Talk page from another machine of the house: by TLS, with the authority of the cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
from playwright.sync_api import Browser, BrowserType, Error, Page, expect

from hearth.cluster.certificates import issue, make_authority
from tests.integration.agent.conftest import House
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.speech.conftest import Speech, end
from tests.ui.conftest import CHROMIUM, sign_in
from tests.ui.talking import (
    PATIENCE,
    becomes,
    microphone,
    speech,
    speech_models,
    to_talk,
    with_microphone,
)

__all__ = ["microphone", "speech", "speech_models"]

NAME = "hearth.test"
"""What a machine without a network is called here; for a browser it is as foreign as an address."""


def address_of_this_machine() -> str:
    """The one that other machines use, where there is one."""
    every = [each for found in psutil.net_if_addrs().values() for each in found]
    found = [each.address for each in every if each.family.name == "AF_INET"]
    return next((one for one in found if not one.startswith("127.")), NAME)


@pytest.fixture
def authority(house: House, speech: Speech, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Where the agent speaks TLS for the whole network, and the file of its authority as the guide
    says that people fetch it."""
    host, port = address_of_this_machine(), free_port_base()
    home = make_authority("Hearth home")
    pair = issue(home, "machine1", [host])
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
        yield f"https://{host}:{port}", file
    finally:
        end(agent)


def answers(port: int) -> bool:
    """By plain HTTP it shows the way to TLS."""
    try:
        found = httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False)
    except httpx2.TransportError:
        return False
    return found.status_code == 308


def test_device_that_trusts_the_house_talks_with_it(
    browser: Browser,
    house: House,
    microphone: Path,
    authority: tuple[str, Path],
    tmp_path: Path,
) -> None:
    """Without the authority the browser warns and gives no page; with it, it gives a microphone,
    also to who typed `http`. Nothing of the browser's own judgement is switched off."""
    address, ca = authority
    house.model.when("capital of").say("It is Paris.")
    trusting = tmp_path / "home"
    with ExitStack() as stack:
        stranger = entered(stack, browser.browser_type, microphone, tmp_path / "stranger")
        with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
            stranger.goto(address)

        subprocess.run([sys.executable, "-m", "tests.ui.trusting", trusting, ca], check=True)
        page = entered(stack, browser.browser_type, microphone, trusting)
        page.goto(address.replace("https", "http"))
        assert page.url.startswith(address)
        sign_in(page, house.key)
        page.get_by_test_id("composer").wait_for()
        to_talk(page).get_by_test_id("talk-start").click()

        turn = page.locator(".talk-turn").filter(has_text="capital of France").first
        expect(turn.get_by_test_id("talk-answer")).to_have_text("It is Paris.", timeout=PATIENCE)
        becomes(page, "speaking")
        assert page.evaluate("isSecureContext")
        assert urlsplit(page.url).hostname == urlsplit(address).hostname


def entered(stack: ExitStack, chromium: BrowserType, microphone: Path, home: Path) -> Page:
    """A browser of somebody whose home is that folder; there stands what it trusts."""
    home.mkdir(exist_ok=True)
    browser = chromium.launch(
        executable_path=CHROMIUM,
        args=[*with_microphone(microphone), f"--host-resolver-rules=MAP {NAME} 127.0.0.1"],
        env={**os.environ, "HOME": str(home)},
    )
    stack.callback(browser.close)
    return browser.new_page()
