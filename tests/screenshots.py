"""Photograph every page of the web page for the documentation: `make screenshots`.

A real agent and a real gateway serve the pages; a scripted model answers. Each page is photographed
in both themes at three widths, as WebP by Chromium itself.
"""

import base64
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from hearth.local.process.logfile import LogFile
from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.service.health import Health
from moe_gateway.app import build_app
from moe_gateway.http.server import CorkedProtocol
from moe_gateway.settings import Settings
from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.gateway.conftest import caller
from tests.rules.tree import ROOT
from tests.ui.conftest import CHROMIUM, PATIENCE, QUIET, REPORT, ended, say, sign_in

FOLDER: Final = ROOT / "docs" / "images" / "pages"
WIDTHS: Final = {360: 740, 768: 1024, 1280: 800}
"""Width -> height of the window: a phone, a tablet, a laptop."""
SETTLE: Final = 400
"""Milliseconds for graphs to be placed."""
QUALITY: Final = 50
"""Of WebP, from 0 to 100."""
ANSWER: Final = """\
Two ways to heat the room:

| | wood | gas |
| --- | --- | --- |
| ready in | 20 min | 2 min |
| cost a day | 1.20 | 2.90 |

1. Open the damper.
2. Light the fire:

```python
stove.light(logs=3)
```
"""


def main() -> None:
    """Write the images; with names of pages as arguments, those only."""
    wanted = set(sys.argv[1:])
    FOLDER.mkdir(parents=True, exist_ok=True)
    with home() as house, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        prepare(browser, house)
        for theme in ("light", "dark"):
            for width, height in WIDTHS.items():
                page = visit(browser, house, width, height, theme)
                for name, show in PAGES.items():
                    if not wanted or name in wanted:
                        show(page)
                        photograph(page, FOLDER / f"{name}-{theme}-{width}.webp")
                page.context.close()
        browser.close()


@contextmanager
def home() -> Iterator[House]:
    """An instance with an agent, a gateway that keeps keys, and logs; its model is scripted."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        model = ScriptedGateway()
        model.names = ("smollm2",)
        model.when("heat the room").say(ANSWER, pause=0.04)
        model.when("remember").call_tool("note_save", {"text": "The cat is fed at six."})
        model.when("fed at six").say("I have noted it.")
        state = Path(folder) / "state"
        (state / "workflows").mkdir(parents=True)
        weights = pull(Catalogue.load()[FALLBACK], ModelStore(ROOT / ".cache" / "models"))
        shutil.copytree(weights.parent, state / "models" / FALLBACK)
        shutil.copy(REPORT, state / "workflows")
        (state / "key").write_text("sk-hearth-people", encoding="utf-8")
        (state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
        log = LogFile(state / "logs" / "moe-gateway.log")
        for text in ("instance_ready instance=smollm2", "request_done model=smollm2 status=200"):
            log.write(f"level=info event={text}")
        log.close()
        settings = Settings.model_validate(
            {
                "key_files": [state / "key", state / "service_key"],
                "key_store": state / "keys.db",
                "instances": [{"url": stack.enter_context(served(model.app)), "expert": "smollm2"}],
                "check_interval": 0.05,
            }
        )
        health = Health("moe-gateway", version="1")
        gateway = stack.enter_context(served(build_app(settings, health), CorkedProtocol))
        house = House(state, model, gateway)
        with caller(gateway, house.key) as own:
            own.post("/api/keys", json={"name": "kitchen-tablet", "tokens_per_day": 200_000})
            own.post("/api/keys", json={"name": "Ada", "scopes": ["chat", "workflows", "exec"]})
        stack.enter_context(house.running())
        yield house


def prepare(browser: Browser, house: House) -> None:
    """Fill the instance: conversations, runs of a workflow to compare, and a note."""
    page = visit(browser, house, 1280, 800, "light")
    ended(say(page, "How do I heat the room?"))
    page.goto(f"{house.address}/#/chat")
    page.get_by_test_id("new-chat").click()
    ended(say(page, "please remember the cat"))
    page.context.close()


def visit(browser: Browser, house: House, width: int, height: int, theme: str) -> Page:
    """A signed-in page in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(house.address)
    page.get_by_test_id("key").wait_for()
    sign_in(page, house.key)
    page.get_by_test_id("composer").wait_for()
    return page


def photograph(page: Page, file: Path) -> None:
    """Write what the top of the page shows, at rest, without a pointer and a text cursor."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur(); document.querySelector('main')?.scrollTo(0, 0)")
    page.wait_for_timeout(SETTLE)
    page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    file.write_bytes(base64.b64decode(shot["data"]))


def at(address: str, sign: str) -> Callable[[Page], None]:
    """Go to an address and wait for the element `sign`."""

    def show(page: Page) -> None:
        page.goto(f"{page.url.split('#')[0]}#/{address}")
        page.get_by_test_id(sign).first.wait_for()

    return show


def conversation(page: Page) -> None:
    """The conversation about the stove."""
    base = page.url.split("#")[0]
    page.goto(f"{base}#/chat?text=heat")
    found = page.locator("[data-testid=conversation][href*='text=heat']").first
    found.wait_for(state="attached")  # on a phone, the list is behind a button
    page.goto(f"{base}{found.get_attribute('href')}")
    ended(page.get_by_test_id("turn"))


def run(page: Page) -> None:
    """The latest run of the agent, with one of its steps."""
    at("runs", "run")(page)
    page.get_by_test_id("run").first.click()
    page.locator(".graph-node[data-path=reply]").click()
    page.get_by_test_id("inspector-output").wait_for()


def compare(page: Page) -> None:
    """The last two runs side by side."""
    at("runs", "run")(page)
    first, second = (row.get_attribute("data-run") for row in page.get_by_test_id("run").all()[:2])
    page.goto(f"{page.url.split('#')[0]}#/runs/{first}?with={second}")
    page.get_by_test_id("compare-totals").wait_for()


def sign_in_page(page: Page) -> None:
    """The sign-in, and back again for the other pages."""
    page.get_by_test_id("sign-out").click()
    page.get_by_test_id("key").wait_for()


PAGES: Final[dict[str, Callable[[Page], None]]] = {
    "chat": at("chat", "demo-notice"),
    "conversation": conversation,
    "notes": at("notes", "note"),
    "talk": at("talk", "talk-kept"),
    "runs": at("runs", "run"),
    "run": run,
    "compare": compare,
    "workflows": at("workflows", "workflow"),
    "workflow": at("workflows/report", "start"),
    "status": at("status", "services"),
    "machines": at("machines", "machine"),
    "models": at("models", "model"),
    "people": at("people", "key"),
    "evolution": at("evolution", "tab-evolution"),
    "logs": at("logs", "log-line"),
    "sign-in": sign_in_page,
}
"""Name of an image -> what brings the page there; the last one ends the session."""


if __name__ == "__main__":
    main()
