"""Panning the Evolution page with 500 candidates. The peer is the same page with 50."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Thread

from playwright.sync_api import Browser, sync_playwright

from hearth.service.version import hearth_version
from prompt_engineering.archive_server import server_of
from tests.benchmarks.entry import Benchmark, Pair
from tests.ui.conftest import CHROMIUM, QUIET
from tests.ui.test_evolution import archive_in

LARGE, SMALL, PAIRS = 500, 50, 5
FRAME = 1000 / 60
"""Milliseconds of a frame at 60 frames per second."""
PAN = """async () => {
  const frame = document.querySelector("evolution-graph .graph-frame")
  document.querySelector("[data-graph-tool=plus]").click()
  const times = []
  for (let step = 0; step < 120; step++) {
    await new Promise(requestAnimationFrame)
    const start = performance.now()
    const way = { deltaX: step % 2 ? 9 : -9, deltaY: 5, cancelable: true }
    frame.dispatchEvent(new WheelEvent("wheel", way))
    frame.getBoundingClientRect()
    times.push(performance.now() - start)
  }
  return times
}"""
"""The work of each frame, with style and layout."""


def measure() -> list[Pair]:
    """Milliseconds of work per frame while the graph is panned."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        with (
            archive_server(Path(name) / "large", LARGE) as large,
            archive_server(Path(name) / "small", SMALL) as small,
        ):
            pairs = [Pair(panned(browser, large), panned(browser, small)) for _ in range(PAIRS)]
        browser.close()
        return pairs


@contextmanager
def archive_server(state: Path, count: int) -> Iterator[str]:
    """The address of a server with one campaign of `count` candidates."""
    archive_in(state, count)
    with server_of(state / "evolution" / "campaigns") as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def panned(browser: Browser, address: str) -> float:
    """Return the median of one pan."""
    page = browser.new_page()
    page.goto(address)
    page.get_by_test_id("candidate").last.wait_for(state="attached")
    times = page.evaluate(PAN)
    page.close()
    return float(median(times))


BENCHMARK = Benchmark(
    id="web.evolution",
    about=(
        "Panning the graph of 500 candidates on the Evolution page: the work per frame, against"
        " the graph of 50."
    ),
    unit="ms",
    peer="50 candidates",
    peer_version=hearth_version,
    goal=None,
    measure=measure,
    lower_is_better=True,
    target=FRAME,
)
