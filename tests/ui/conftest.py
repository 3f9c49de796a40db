"""A real agent service, a real browser, and a watch on all that the browser says and asks."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)
from starlette.types import ASGIApp

from hearth.settings import Settings
from tests.integration.agent.conftest import House, ScriptedGateway

CHROMIUM = Path("/usr/bin/chromium")
"""The whole browser: what it does with a microphone is tested with this one."""
SHELL = Path("/usr/bin/chromium-headless-shell")
"""The same engine without the browser's own windows: a quarter less processor time."""
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
REPORT = Path(__file__).parent / "report.yaml"
"""A workflow with all that a graph can show: a scope, parallel nodes, a model, a condition."""
REFUSED = re.compile(r"Failed to load resource: .* (400|401|404|409|412|422|502|503)")
"""Chromium's own line about a refusal that the page itself shows to its reader."""

PATIENCE = 60_000
"""Milliseconds: a browser on a machine that also runs other tests takes its time."""
expect.set_options(timeout=PATIENCE)

Serve = Callable[[ASGIApp], str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One headless browser for the tests of a module."""
    with launched(SHELL) as shell:
        yield shell


@contextmanager
def launched(program: Path) -> Iterator[Browser]:
    """Run a browser.

    For a module at most: while Playwright is open, its event loop counts as running in this thread,
    and asynchronous tests of other folders could not start theirs.
    """
    if missing := [program for program in (SHELL, CHROMIUM) if not program.exists()]:
        reason = f"There is no {missing[0]}: apt-get install {missing[0].name}"
        if Settings.load().test_strict:
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=list(QUIET), timeout=2 * PATIENCE
        )
        yield chromium
        chromium.close()


@pytest.fixture
def house(tmp_path: Path, serve: Serve) -> House:
    """A state directory with its keys, and a scripted model as its gateway."""
    model = ScriptedGateway()
    address = serve(model.app)
    house = House(tmp_path / "state", model, address)
    house.state.mkdir()
    (house.state / "workflows").mkdir()
    shutil.copy(REPORT, house.state / "workflows")
    (house.state / "key").write_text(house.key, encoding="utf-8")
    (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    house.more = {"services": {"moe-gateway": address, "speech-stt": "http://127.0.0.1:9"}}
    return house


@dataclass
class Visitor:
    """Somebody at a browser. `complaints` are errors on the console and uncaught ones; `abroad`
    are requests that left the service's own address.
    """

    browser: Browser
    house: House
    closing: ExitStack
    service: ExitStack = field(default_factory=ExitStack)
    complaints: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)

    def restart(self) -> None:
        """Stop the service, if it runs, and start it on the same state; its address changes."""
        self.service.close()
        self.service.enter_context(self.house.running())

    def open(self, *, width: int = 1280, height: int = 800, theme: str = "light") -> Page:
        """A fresh browser profile at the sign-in."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
        )
        self.closing.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._requested)
        page.goto(self.house.address)
        return page

    def enter(self, **how: Any) -> Page:
        """The same, signed in."""
        page = self.open(**how)
        sign_in(page, self.house.key)
        page.get_by_test_id("composer").wait_for()
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not REFUSED.match(message.text):
            self.complaints.append(message.text)

    def _requested(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in {"data", "blob"} and url.netloc != urlsplit(self.house.address).netloc:
            self.abroad.append(request.url)


@pytest.fixture
def visitor(browser: Browser, house: House) -> Iterator[Visitor]:
    """A visitor of a running service; at the end nothing may have been complained or leaked."""
    with ExitStack() as closing:
        visitor = Visitor(browser, house, closing)
        closing.enter_context(visitor.service)
        visitor.restart()
        yield visitor
    assert visitor.complaints == []
    assert visitor.abroad == []


def sign_in(page: Page, key: str) -> None:
    """Give a key at the sign-in."""
    page.get_by_test_id("key").fill(key)
    page.get_by_test_id("sign-in").click()


def say(page: Page, text: str) -> Locator:
    """Ask something in the chat; the turn it makes."""
    turns = page.get_by_test_id("turn").count()
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")
    return page.get_by_test_id("turn").nth(turns)


def ended(turn: Locator, state: str = "done") -> None:
    """Wait until a turn of the chat has come to this end."""
    turn.and_(turn.page.locator(f"[data-state={state}]")).wait_for()


SETTLED = """async () => {
  const passing = (each) => each.effect.getComputedTiming().endTime !== Infinity
    && each.playState === "running"
  let still = 0
  while (still < 3) {
    await new Promise(requestAnimationFrame)
    still = document.getAnimations().some(passing) ? 0 : still + 1
  }
}"""
"""Waits until three frames in a row show no transition. It does not wait for `finished` of the
animations: Chromium never settles it for one whose element is removed at that moment."""


def faults(page: Page, *, every: bool = False) -> list[str]:
    """What the axe rules find wrong for people with assistive technology; the grave ones, or
    `every` one.
    """
    # A colour in mid-transition has no contrast to speak of.
    page.evaluate(SETTLED)
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes']]}"
        for each in found
        if every or each["impact"] in {"serious", "critical"}
    ]
