"""The code of a repository is checked against a plan, and what is missing is named."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.integration.agent.code.conftest import commit, follow_until, repository
from tests.integration.agent.conftest import House, Json
from tests.integration.tools.browser.conftest import hosted

PLAN = """
1. Write `total` in `shop.py`, which adds prices.
2. Write `Cart.refund` in `shop.py`.
3. Describe it in `README.md`.
4. Make it fast.
"""
SHOP = '''
def total(prices):
    """Add prices."""
    return sum(prices)
'''
CART = '''

class Cart:
    def refund(self, price):
        """Give money back."""
'''


@pytest.fixture
def client(house: House) -> Iterator[httpx2.Client]:
    with house.client() as client:
        yield client


def checked(client: httpx2.Client, repo: Path, *, judge: bool = True) -> Json:
    inputs = {"plan": PLAN, "repo": str(repo), "judge": judge}
    run = client.post("/api/runs", json={"workflow": "check-plan", "inputs": inputs}).json()["run"]
    view = follow_until(client, run, "end")
    assert view["status"] == "done", view
    outputs: Json = view["outputs"]
    return outputs


@pytest.mark.proves("000-36")
def test_missing_steps_of_a_plan_are_named_until_they_are_done(
    house: House, client: httpx2.Client, tmp_path: Path
) -> None:
    """What is not there is found without a model; a model judges only code that is there."""
    repo = repository(tmp_path / "repo", {"shop.py": SHOP, "README.md": ""})
    house.model.when("adds prices").say('{"state": "done", "missing": []}')
    house.model.when("Make it fast").say('{"state": "unclear", "missing": []}')
    first = checked(client, repo)
    assert not first["complete"]
    assert [(one["step"], one["missing"]) for one in first["missing"]] == [
        ("Write `Cart.refund` in `shop.py`.", ["Cart.refund: no such definition"]),
        ("Describe it in `README.md`.", ["README.md: is empty"]),
    ]
    assert first["unclear"] == ["Make it fast."]
    assert len(house.model.requests) == 2

    (repo / "shop.py").write_text(SHOP + CART, encoding="utf-8")
    (repo / "README.md").write_text("A shop.\n", encoding="utf-8")
    commit(repo)
    house.model.when("Cart.refund").say(
        '{"state": "missing", "missing": ["Nothing is paid back."]}'
    )
    house.model.when("Describe it").say('{"state": "done", "missing": []}')
    second = checked(client, repo)
    assert [one["missing"] for one in second["missing"]] == [["Nothing is paid back."]]
    assert second["steps"][1]["found"] == ["shop.py", "Cart.refund: shop.py:8"]
    assert checked(client, repo, judge=False)["unclear"] == ["Make it fast."]


@pytest.mark.proves("000-36")
def test_web_and_stored_information_are_tools_of_every_workflow(empty_house: House) -> None:
    """A page is read from the web, its text is stored as a note, and another run finds it."""
    with hosted() as site:
        page = site.page("/", "<title>Shop</title><p>Tea costs 3.</p>")
        empty_house.more = {"web_private": [site.host]}
        with empty_house.running(), empty_house.client() as client:
            got = called(client, "http.get", {"url": page, "hosts": [site.host]})
            assert "Tea costs 3." in got["text"]
            called(client, "note.save", {"text": got["text"], "tags": ["shop"]})
            (note,) = called(client, "note.find", {"query": "tea"})["notes"]
            assert "Tea costs 3." in note["text"]
            names = {one["name"] for one in client.get("/api/tools").json()["tools"]}
            assert {"search.web", "browser.open", "browser.read", "search.files"} <= names


def called(client: httpx2.Client, tool: str, inputs: Json) -> Json:
    """The outputs of one call of a tool."""
    run = client.post("/api/runs", json={"tool": tool, "inputs": inputs}).json()
    view = follow_until(client, run["run"], "end")
    assert view["status"] == "done", view
    outputs: Json = view["outputs"]
    return outputs
