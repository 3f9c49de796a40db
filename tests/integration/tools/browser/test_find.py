"""The tool `browser.find`."""

from pipecatapp.tools import TOOLS
from tests.integration.tools.browser.conftest import Visit
from tests.integration.tools.browser.test_read import rows

FIND = TOOLS["browser.find"]


async def test_row_that_is_folded_in_the_text_is_found(visit: Visit) -> None:
    """A model looks for one row of a thousand without reading all."""
    await visit.show(rows(1000))

    found = await visit.call("find", text="ITEM 5439", role="link")

    assert found["count"] == 1
    assert 'Item 777 | 5439 EUR | [778 link "Open 777"]' in found["text"]
    assert (await visit.call("act", action="click", element=778))["address"].endswith("/item/777")


async def test_many_matches_are_counted_and_cut(visit: Visit) -> None:
    """A search for nothing in particular must not fill the context."""
    await visit.show(rows(1000))

    found = await visit.call("find", role="link", budget=300)

    assert found["count"] == 1000
    assert 0 < found["shown"] < 30


async def test_nothing_is_found(visit: Visit) -> None:
    """An empty answer is an answer."""
    await visit.show("<p>Tea.")

    found = await FIND.check(visit.ctx, {"text": "coffee"})

    assert (found["count"], found["shown"]) == (0, 0)
    assert "(Nothing was found.)" in found["text"]
