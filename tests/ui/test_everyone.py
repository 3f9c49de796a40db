"""What holds for every page: for every eye, every hand, every width, and no network at all."""

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Visitor, ended, faults, say

PAGES = (
    "chat", "notes", "talk", "runs", "run", "workflows", "workflow",
    "tools", "tool", "triggers", "explore", "status", "machines", "models", "people", "evolution",
    "logs",
)  # fmt: skip
SIZES = ((1280, 800), (768, 1024), (360, 740), (844, 390), (640, 400))
"""Three widths, a phone on its side, and a laptop at 200 % zoom."""
ANSWER = """Look:

| fuel | price |
| --- | ---: |
| wood | 1.20 |

- [x] one
- two $x^2$

```python
print(1)
```
"""


def visit(page: Page, name: str) -> None:
    """Go to a page and wait for what it is about."""
    base = page.url.split("#")[0]
    if name == "run":
        visit(page, "runs")
        page.get_by_test_id("run").first.click()
        page.locator(".graph-node[data-path=reply]").click()
        page.get_by_test_id("inspector-output").wait_for()
        return
    places = {"workflow": "workflows/report", "tool": "tools/file.write"}
    page.goto(f"{base}#/{places.get(name, name)}")
    signs = {
        "chat": "composer", "notes": "notes-filter", "talk": "talk-kept", "runs": "run",
        "workflows": "workflow", "workflow": "start", "tools": "tool", "tool": "start",
        "triggers": "trigger-add", "explore": "explore-start",
        "status": "services", "machines": "machine",
        "models": "model", "people": "key-add", "evolution": "evolution-state", "logs": "logs",
    }  # fmt: skip
    page.get_by_test_id(signs[name]).first.wait_for()


def test_no_page_has_a_fault_of_access_in_any_theme_and_size(visitor: Visitor) -> None:
    """Names, roles, contrast: a screen reader and tired eyes depend on them."""
    visitor.house.model.when("code").say(ANSWER)
    page = visitor.open()
    found = faults_of(page, "sign-in")
    page.get_by_test_id("key").fill(visitor.house.key)
    page.get_by_test_id("sign-in").click()
    page.get_by_test_id("composer").wait_for()
    found += faults_of(page, "empty chat")
    ended(say(page, "Show me code"))
    found += faults_of(page, "answer")

    for name in PAGES:
        visit(page, name)
        found += faults_of(page, name)

    assert found == []


def faults_of(page: Page, name: str) -> list[str]:
    """Return every finding of axe on the page as it is, at every size, and in both themes at the
    first: no style sheet has a rule for a theme and a size together."""
    found = []
    page.emulate_media(color_scheme="dark")
    found += [f"{name}, dark: {fault}" for fault in lasting_faults(page)]
    page.emulate_media(color_scheme="light")
    for width, height in reversed(SIZES):
        page.set_viewport_size({"width": width, "height": height})
        found += [f"{name}, {width}: {fault}" for fault in lasting_faults(page)]
    return found


def lasting_faults(page: Page) -> list[str]:
    """Return the findings that are still there in a second look: a graph that gets more room is
    drawn over several frames."""
    first = faults(page, every=True)
    return [fault for fault in faults(page, every=True) if fault in first] if first else []


@pytest.mark.parametrize("width", [360, 768])
def test_no_page_is_wider_than_the_screen(visitor: Visitor, width: int) -> None:
    """A page that slides sideways under the thumb cannot be read."""
    page = visitor.enter(width=width, height=740)
    ended(say(page, "A long word: " + "x" * 200))

    wide = {}
    for name in PAGES:
        visit(page, name)
        wide[name] = page.evaluate(
            "Math.max(document.documentElement.scrollWidth, "
            "document.querySelector('main').scrollWidth) - innerWidth"
        )

    assert {name: by for name, by in wide.items() if by > 0} == {}


@pytest.mark.parametrize(
    ("width", "height"), [(844, 390), (640, 400), (683, 384), (720, 450), (960, 540)]
)
def test_composer_and_places_are_visible_in_a_low_window(
    visitor: Visitor, width: int, height: int
) -> None:
    """A phone on its side, and common screens at 200 % zoom: who cannot see the field cannot ask,
    and a page that scrolls as a whole hides its heading."""
    page = visitor.enter(width=width, height=height)
    ended(say(page, "A question\n\n" + "with many lines\n\n" * 40))
    page.get_by_test_id("composer").fill("A draft\n" * 30)

    for test_id in ("composer", "send", "nav-chat", "nav-status", "sign-out"):
        expect(page.get_by_test_id(test_id)).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0


def test_graph_is_behind_a_button_on_a_phone(visitor: Visitor) -> None:
    """On a narrow screen the conversation has the room, and the graph is one touch away."""
    page = visitor.enter(width=390, height=844)
    ended(say(page, "Hello"))
    expect(page.get_by_test_id("run-panel")).to_be_hidden()

    page.get_by_test_id("toggle-run").click()

    expect(page.locator(".graph-node[data-path=reply]")).to_be_visible()
    expect(page.get_by_test_id("toggle-run")).to_have_attribute("aria-expanded", "true")


def test_everything_is_reached_by_keyboard_alone(visitor: Visitor) -> None:
    """Sign in, ask, open the run, look into a step, go home: without a mouse."""
    page = visitor.open()
    page.keyboard.type(visitor.house.key)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("composer")).to_be_focused()
    page.keyboard.type("Hello")
    page.keyboard.press("Enter")
    ended(page.get_by_test_id("turn"))

    tab_to(page, "document.activeElement.textContent === 'Details'")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hello")
    tab_to(page, "document.activeElement.matches('.graph-node')")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("inspector")).to_be_visible()
    page.keyboard.press("Escape")
    page.reload()
    page.get_by_test_id("graph-node").first.wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def tab_to(page: Page, condition: str) -> None:
    """Press Tab until the condition holds; each stop on the way must show where it is."""
    for _ in range(40):
        page.keyboard.press("Tab")
        ring = page.evaluate(
            "(() => { const at = document.activeElement; const own = getComputedStyle(at);"
            " const after = getComputedStyle(at, '::after');"
            " const around = getComputedStyle(at.closest('.composer') ?? at);"
            " return own.outlineStyle !== 'none' || after.outlineStyle !== 'none'"
            " || around.boxShadow !== 'none' })()"
        )
        assert ring, page.evaluate("document.activeElement.outerHTML")
        if page.evaluate(condition):
            return
    raise AssertionError(f"{condition} was not reached in 40 steps")


def test_going_to_a_page_moves_title_and_focus(visitor: Visitor) -> None:
    """A screen reader hears where it is; the tab and the history say it too."""
    page = visitor.enter()

    page.get_by_test_id("nav-status").click()
    expect(page).to_have_title("Status · Hearth")
    page.get_by_test_id("nav-runs").click()

    expect(page).to_have_title("Runs · Hearth")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    expect(page.get_by_test_id("nav-runs")).to_have_attribute("aria-current", "page")
    page.go_back()
    expect(page).to_have_title("Status · Hearth")


def test_unknown_address_leads_home(visitor: Visitor) -> None:
    """A mistyped address is answered with a way on."""
    page = visitor.enter()

    page.goto(f"{visitor.house.address}/#/attic")

    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    page.get_by_role("link", name="Go to the chat").click()
    expect(page.get_by_test_id("composer")).to_be_visible()


def test_page_has_no_inline_code_and_works_from_its_own_address_only(visitor: Visitor) -> None:
    """The promise of a private AI begins with the page: it asks nobody but its own service."""
    policies = []
    page = visitor.open()
    page.on("response", lambda answer: policies.append(answer.headers))
    page.reload()
    page.get_by_test_id("key").wait_for()

    policy = policies[0]["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "'unsafe-inline'" not in policy
    assert page.locator("script:not([src]), style, [style]").count() == 0
    assert visitor.abroad == []
