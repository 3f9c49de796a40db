"""The tool `browser.act`: elements are found again, and nothing is sent without permission."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import ToolFailed
from tests.integration.tools.browser.conftest import Visit

FORM = """<title>Order</title><form method=post action=/order><label>Name <input name=n></label>
  <select name=size aria-label=Size><option value=s>Small<option value=l>Large</select>
  <label><input type=checkbox name=gift>Gift</label><button>Order</button></form>
  <a href=/more target=_blank>More</a>"""


async def test_form_is_filled_by_name_and_by_number_and_sent_with_permission(visit: Visit) -> None:
    """The whole of what a form is for."""
    await visit.show(FORM)
    await visit.text()

    await visit.call("act", action="fill", role="textbox", name="Name", value="Ada")
    await visit.call("act", action="select", element=2, value="Large")
    await visit.call("act", action="check", element=3)
    text = await visit.text()
    sent = await visit.call("act", action="click", role="button", name="Order", submit=True)

    assert '= "Ada"' in text
    assert '= "Large"' in text
    assert "(checked)" in text
    assert sent["address"].endswith("/order")
    assert "POST /order" in visit.site.requests


@pytest.mark.proves("001-18")
async def test_nothing_is_sent_without_permission(visit: Visit) -> None:
    """A click of a model must not order, delete or publish anything."""
    await visit.show(FORM + "<button onclick=\"fetch('/api', {method: 'DELETE'})\">Delete</button>")

    order = await visit.call("act", action="click", role="button", name="Order")
    delete = await visit.call("act", action="click", role="button", name="Delete")

    assert order["stopped"] == [f"POST http://{visit.site.host}/order"]
    assert delete["stopped"] == [f"DELETE http://{visit.site.host}/api"]
    assert [one for one in visit.site.requests if not one.startswith("GET")] == []
    assert order["title"] == "Order"


@pytest.mark.parametrize(
    ("given", "when"),
    [({"action": "scroll"}, "never"), ({"action": "back"}, "never"), ({"action": "click"}, "never"),
     ({"action": "fill"}, "first"), ({"action": "press"}, "first"), ({"action": "check"}, "first"),
     ({"action": "click", "submit": True}, "always"),
     ({"action": "fill", "submit": True}, "always"),
     ({}, "first")],
)  # fmt: skip
def test_person_approves_what_gives_words_away(given: dict[str, object], when: str) -> None:
    """The approval fits what an action can do, and not how often it is used."""
    assert TOOLS["browser.act"].approval(given) == when


def test_address_that_a_model_chooses_is_approved_once() -> None:
    """An address is a message to its host; the author of a document can name the hosts instead."""
    tool = TOOLS["browser.open"]

    assert tool.approval({"address": "https://example.org/?notes=…"}) == "first"
    assert tool.approval({"address": "https://example.org/", "hosts": ["example.org"]}) == "never"


async def test_link_opens_in_the_same_window_and_back_returns(visit: Visit) -> None:
    """The links of many pages open a new window, which nobody would read."""
    await visit.show(FORM)

    more = await visit.call("act", action="click", role="link", name="More")
    back = await visit.call("act", action="back")

    assert more["address"].endswith("/more")
    assert back["title"] == "Order"


async def test_missing_target_gets_the_nearest_candidates(visit: Visit) -> None:
    """A model corrects itself from the answer, without reading the page again."""
    await visit.show(FORM)

    with pytest.raises(ToolFailed, match=r'no button "Ordr"\. Nearest: \[4 button "Order"\]'):
        await visit.call("act", action="click", role="button", name="Ordr")
    with pytest.raises(ToolFailed, match="Name the element"):
        await visit.call("act", action="click")
    with pytest.raises(ToolFailed, match=r"no element 99: .* 1 to 5"):
        await visit.call("act", action="click", element=99)
    with pytest.raises(ToolFailed, match=r"no option 'Huge'\. Options: Small, Large"):
        await visit.call("act", action="select", role="combobox", name="Size", value="Huge")


async def test_ambiguous_target_is_decided_by_number_or_selector(visit: Visit) -> None:
    """A list has the same button in each row."""
    await visit.show("".join(f"<p>Row {n} <a href=/row/{n}>Edit</a></p>" for n in range(3)))
    await visit.text()

    with pytest.raises(ToolFailed, match=r'3 elements are link "Edit": use the number'):
        await visit.call("act", action="click", role="link", name="Edit")
    chosen = await visit.call("act", action="click", element=2)

    assert chosen["address"].endswith("/row/1")
    assert chosen["selector"] == "body > p:nth-of-type(2) > a"


async def test_target_is_found_by_text_then_by_the_recorded_selector(visit: Visit) -> None:
    """Pages change between a recording and its replay."""
    await visit.show("<button id=b onclick=\"document.title = 'done'\">Send it now</button>")
    recorded = {"role": "button", "name": "Send", "selector": "#b"}

    by_text = await visit.call("act", action="click", **recorded, text="it now")
    by_selector = await visit.call("act", action="click", **recorded)

    assert (by_text["by"], by_selector["by"]) == ("text", "selector")
    assert by_selector["title"] == "done"


async def test_keys_and_scrolling_work_on_the_page(visit: Visit) -> None:
    """Search fields have no button; long pages load more when they are scrolled."""
    await visit.show("""<form action=/search><input name=q aria-label=Search></form>
      <div style="height:5000px"></div><script>
      onscroll = () => document.title = scrollY > 0 ? "down" : "top"</script>""")

    down = await visit.call("act", action="scroll")
    up = await visit.call("act", action="scroll", value="up")
    await visit.call("act", action="fill", role="textbox", name="Search", value="tea")
    found = await visit.call("act", action="press", role="textbox", name="Search", value="Enter")
    with pytest.raises(ToolFailed, match="key to press"):
        await visit.call("act", action="press")

    assert (down["title"], up["title"]) == ("down", "top")
    assert found["address"].endswith("/search?q=tea")
