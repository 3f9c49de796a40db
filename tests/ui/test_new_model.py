"""From the first visit to another model: a real instance, a real small model, and a hub at home."""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from ruamel.yaml import YAML

from hearth.models.catalogue import FALLBACK, Catalogue, shipped_catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.service.state import read_instance
from tests.integration.local.conftest import Tiny, make_tiny, wait_for
from tests.integration.models.hub import Hub
from tests.rules.tree import ROOT
from tests.ui.conftest import Serve, ended, faults, say, sign_in

EXTENDED_INPUTS = [
    "pipecatapp/static/pages/models*",
    "pipecatapp/api/chat_models.py",
    "hearth/models/*",
    "hearth/local/expert.py",
    "hearth/local/process/*",
    "llama_expert/**",
]

__all__ = ["make_tiny"]

NEW = "second"
SECONDS = 600.0


@pytest.fixture
def instance(make_tiny: Callable[[], Tiny], serve: Serve, tmp_path: Path) -> Iterator[Tiny]:
    """`hearth up` with the demo model; its catalogue has the same file once more, at a hub."""
    tiny = make_tiny()
    tiny.module = "hearth"
    cached = ModelStore(ROOT / ".cache" / "models")
    weights = pull(Catalogue.load()[FALLBACK], cached)
    shutil.copytree(cached.root / FALLBACK, tiny.state.models / FALLBACK)
    yaml = YAML()
    catalogue = yaml.load(shipped_catalogue())
    source = {"kind": "url", "url": f"{serve(Hub(weights.read_bytes()))}/model.gguf"}
    catalogue["models"][NEW] = {**catalogue["models"][FALLBACK], "source": source}
    yaml.dump(catalogue, tmp_path / "models.yaml")
    tiny.environment["HEARTH_CATALOGUE"] = str(tmp_path / "models.yaml")
    up = tiny.start("--no-speech")
    wait_for(lambda: read_instance(tiny.state), "the instance is healthy", SECONDS)
    yield tiny
    up.send(signal.SIGINT)
    assert up.ended() == 0
    tiny.assert_nothing_left()


@pytest.mark.extended
@pytest.mark.timeout(1200)
def test_model_is_downloaded_and_answers_without_a_restart(
    browser: Browser, instance: Tiny
) -> None:
    """What a new user does in the first five minutes."""
    running = instance.running()
    before = {one.name: one.pid for one in running.services}
    with ExitStack() as closing:
        context = browser.new_context(reduced_motion="reduce")
        closing.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(running.web)
        sign_in(page, running.key_file.read_text(encoding="ascii").strip())
        expect(page.get_by_test_id("demo-notice")).to_contain_text("smollm2 answers, a demo model")
        chosen = page.get_by_role("combobox", name="Who answers")
        expect(chosen).to_contain_text("Agent (smollm2)")
        page.get_by_test_id("demo-link").click()
        row = page.locator(f"[data-testid=model][data-name={NEW}]")
        row.get_by_test_id("model-pull").click()
        row.get_by_test_id("model-use").click()
        expect(row.get_by_test_id("model-loading")).to_be_visible()
        expect(row).to_contain_text("In use", timeout=SECONDS * 1000)
        assert faults(page, every=True) == []

        page.get_by_test_id("nav-chat").click()
        expect(chosen).to_contain_text(f"Agent ({NEW})")
        turn = say(page, "Say hello.")
        ended(turn)
        expect(turn.get_by_test_id("answer")).not_to_be_empty()

    after = {one.name: one.pid for one in instance.running().services}
    assert set(after) - set(before) == {f"llama-expert-{NEW}"}
    assert all(after[name] == before[name] for name in ("moe-gateway", "pipecatapp"))
    assert f'"{NEW}"' in (instance.state.root / "expert.json").read_text(encoding="utf-8")
