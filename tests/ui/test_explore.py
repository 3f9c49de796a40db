"""The explorer: how sure the real small model was of each token, in several branches."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.integration.agent.code.conftest import follow_until
from tests.integration.agent.conftest import Json
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import Expert, Starter
from tests.ui.conftest import Visitor, faults


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    """SmolLM2 in the embedded engine."""
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    with Starter("xllamacpp", tmp_path_factory.mktemp("expert"), store.root).running() as running:
        yield running


@pytest.fixture
def explorer(visitor: Visitor, expert: Expert, tmp_path: Path) -> Page:
    """The page of the explorer, in front of the real model."""
    (tmp_path / "expert_key").write_text(EXPERT_KEY, encoding="utf-8")
    visitor.house.gateway = str(expert.client.base_url).rstrip("/")
    visitor.house.more["gateway_key_file"] = tmp_path / "expert_key"
    visitor.restart()
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    page.get_by_test_id("tab-explore").click()
    return page


def ask(page: Page) -> None:
    page.get_by_test_id("explore-text").fill("What is the capital of France?")
    page.get_by_test_id("explore-count").fill("2")
    page.get_by_test_id("explore-length").fill("6")
    page.get_by_test_id("explore-start").click()


@pytest.mark.proves("003-46")
def test_tokens_and_branches_of_an_answer_are_looked_at_and_continued(explorer: Page) -> None:
    """Each token tells its probability and what else could have stood there; a branch begins at
    another token, branches are culled by hand, and a reload loses nothing.
    """
    page = explorer
    ask(page)
    expect(page.get_by_test_id("branch")).to_have_count(2)
    token = page.get_by_test_id("branch").first.get_by_test_id("token").first
    assert 0 < len(page.get_by_test_id("branch").first.get_by_test_id("token").all()) <= 6
    token.click()
    expect(page.get_by_test_id("token-detail").first).to_contain_text("was chosen with")
    other = page.get_by_test_id("token-alternative").first
    word = other.inner_text().split("“")[1].rstrip("”").replace("␣", " ")
    other.click()
    expect(page.get_by_test_id("explore-set")).to_have_count(2)
    newest = page.get_by_test_id("explore-set").first
    expect(newest.get_by_test_id("branch")).to_have_count(2)
    expect(newest).to_contain_text(f"Continues “{word}”")
    expect(newest.locator(".token-prefix").first).to_have_text(word)

    newest.get_by_test_id("branch-cull").first.click()
    expect(newest.get_by_test_id("branch-state").first).to_have_text("Culled")
    texts = page.locator(".token-text").all_inner_texts()
    page.reload()
    expect(page.get_by_test_id("branch")).to_have_count(4)
    expect(newest.get_by_test_id("branch-state").first).to_have_text("Culled")
    assert faults(page, every=True) == []
    assert page.locator(".token-text").all_inner_texts() == texts


@pytest.mark.proves("003-46")
def test_probabilities_are_those_of_the_model(explorer: Page, visitor: Visitor) -> None:
    """They are below 1, the alternatives are sorted, the same seed gives the same branch, and the
    branch that is ranked first is the one of which the model was most certain.
    """
    del explorer
    inputs = {"text": "What is the capital of France?", "seeds": [7, 8, 7], "max_tokens": 5}
    with visitor.house.client() as client:
        branches = explored(client, {**inputs, "margin": 0})
        assert [one["rank"] for one in branches] == [1, 2, 3]
        means = [one["mean_logprob"] for one in branches]
        assert means == sorted(means, reverse=True)
        assert [one["kept"] for one in branches] == [mean == means[0] for mean in means]
        assert len({one["text"] for one in branches}) <= 2
        for branch in branches:
            assert "".join(token["token"] for token in branch["tokens"]) == branch["text"]
            for token in branch["tokens"]:
                found = [one["probability"] for one in token["alternatives"]]
                assert len(found) == 5
                assert found == sorted(found, reverse=True)
                assert 0 < sum(found) <= 1.0001
                assert 0 < token["probability"] <= 1
        (sure,) = explored(client, {**inputs, "seeds": [1], "temperature": 0})
        assert all(token["token"] == token["alternatives"][0]["token"] for token in sure["tokens"])


def explored(client: httpx2.Client, inputs: Json) -> list[Json]:
    body = {"workflow": "explore", "inputs": inputs}
    view = follow_until(client, client.post("/api/runs", json=body).json()["run"], "end")
    assert view["status"] == "done", view
    branches: list[Json] = view["outputs"]["branches"]
    return branches


def test_branches_that_break_off_are_said(visitor: Visitor) -> None:
    """A set that never shows anything would look as if it were still being written."""
    visitor.house.model.when("France").lose("Par", after=1)
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/explore")
    ask(page)
    expect(page.get_by_test_id("problem")).to_contain_text("did not finish")
