"""People on the page: keys that are issued, limited and revoked, with a real gateway behind."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from hearth.service.health import Health
from moe_gateway.app import build_app
from moe_gateway.http.headers import CALLER_HEADER
from moe_gateway.http.server import CorkedProtocol
from moe_gateway.keys.delegation import Delegation
from moe_gateway.settings import Settings
from tests.conftest import served
from tests.integration.gateway.conftest import CHAT, caller, chat
from tests.ui.conftest import Visitor, faults

BEHALF = {
    CALLER_HEADER.decode(): Delegation("kitchen-tablet", 1).signed(b"sk-hearth-services").decode()
}
"""The gateway states with it whose request it forwards to the agent."""


@pytest.fixture
def gateway(visitor: Visitor) -> Iterator[str]:
    """A gateway that keeps keys, between the agent and the scripted model."""
    state = visitor.house.state
    agent = {"url": visitor.house.address, "lists_models": True, "key_file": state / "service_key"}
    settings = Settings.model_validate(
        {
            "key_files": [state / "key", state / "service_key"],
            "key_store": state / "keys.db",
            "instances": [{"url": visitor.house.gateway, "expert": "scripted"}, agent],
            "check_interval": 0.05,
        }
    )
    with served(build_app(settings, Health("moe-gateway", version="test")), CorkedProtocol) as url:
        visitor.house.gateway = url
        visitor.restart()
        yield url


def people(visitor: Visitor, width: int = 1280, theme: str = "light") -> Page:
    page = visitor.enter(width=width, theme=theme)
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-people").click()
    page.get_by_test_id("keys").wait_for()
    return page


def row_of(page: Page) -> Locator:
    return page.locator("[data-testid=key][data-name=kitchen-tablet]")


def test_key_is_made_on_the_page_and_shown_once(visitor: Visitor, gateway: str) -> None:
    """A key for the tablet in the kitchen, with a budget."""
    page = people(visitor)
    expect(page.get_by_test_id("empty")).to_contain_text("No issued keys yet")

    page.get_by_test_id("key-add").click()
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("key-name")).to_be_focused()  # the browser asks for the name
    page.get_by_test_id("key-name").fill("kitchen-tablet")
    page.get_by_test_id("key-tokens_per_day").fill("5000")
    page.get_by_test_id("dialog-save").click()
    secret = page.get_by_test_id("key-secret").locator("pre").inner_text()
    assert secret.startswith("sk-hearth-")
    assert faults(page) == []
    page.get_by_test_id("dialog-close").click()

    row = row_of(page)
    expect(row).to_contain_text("0 requests and 0 of 5,000 tokens today")
    expect(row).to_contain_text(f"…{secret[-4:]}")
    assert secret not in page.content(), "it is shown once"
    with caller(gateway, secret) as tablet:
        tablet.post(CHAT, json=chat("Hi", model="scripted")).raise_for_status()
    page.reload()
    expect(row).to_contain_text("1 request and ")


def test_key_is_limited_and_revoked_on_the_page(visitor: Visitor, gateway: str) -> None:
    """What a key may do changes at once, and a lost tablet is locked out."""
    with caller(gateway, visitor.house.key) as own:
        made = own.post("/api/keys", json={"name": "kitchen-tablet", "tokens_per_day": 5000})
    page = people(visitor)
    row = row_of(page)
    with caller(gateway, made.json()["key"]) as tablet:
        page.get_by_test_id("key-menu").click()
        page.get_by_test_id("menu-limit").click()
        expect(page.get_by_test_id("key-tokens_per_day")).to_have_value("5000")
        page.get_by_test_id("key-models").fill("nothing")
        page.get_by_test_id("dialog-save").click()
        expect(row).to_contain_text("only nothing")
        assert tablet.post(CHAT, json=chat("Hi", model="scripted")).status_code == 403

        page.get_by_test_id("key-menu").click()
        page.get_by_test_id("menu-revoke").click()
        page.get_by_test_id("dialog-confirm").click()
        expect(page.get_by_text("Revoked keys (1)")).to_be_visible()
        assert tablet.post(CHAT, json=chat("Hi", model="scripted")).status_code == 401


def test_refusal_of_the_gateway_is_shown_in_the_form(visitor: Visitor, gateway: str) -> None:
    """What was typed stays, so that one changes the name and goes on."""
    with caller(gateway, visitor.house.key) as own:
        own.post("/api/keys", json={"name": "kitchen-tablet"}).raise_for_status()
    page = people(visitor)

    page.get_by_test_id("key-add").click()
    page.get_by_test_id("key-name").fill("kitchen-tablet")
    page.get_by_test_id("dialog-save").click()

    expect(page.get_by_test_id("key-fault")).to_contain_text("There is a key 'kitchen-tablet'")
    expect(page.get_by_test_id("key-name")).to_have_value("kitchen-tablet")
    page.get_by_test_id("key-name").fill("hall-tablet")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("key-secret")).to_be_visible()


def test_conversations_of_a_key_are_listed_and_opened(visitor: Visitor, gateway: str) -> None:
    """Parents see what the tablet was used for."""
    with caller(gateway, visitor.house.key) as own:
        own.post("/api/keys", json={"name": "kitchen-tablet"}).raise_for_status()
    with visitor.house.client() as agent:
        said = [{"role": "user", "content": "How long do eggs take?"}]
        body = {"model": "agent", "messages": said, "conversation": "c-eggs"}
        agent.post(CHAT, json=body, headers=BEHALF).raise_for_status()
        refused = agent.get("/api/keys", headers=BEHALF)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_administrator")
    page = people(visitor)

    row_of(page).get_by_role("button", name="1 conversation of kitchen-tablet").click()
    page.get_by_test_id("key-talks").get_by_role("link").click()

    expect(page.get_by_test_id("turn")).to_contain_text("How long do eggs take?")


def test_gateway_that_is_away_is_told(visitor: Visitor) -> None:
    """The keys are the gateway's; an empty list would look as if all were revoked."""
    visitor.house.more["gateway_url"] = "http://127.0.0.1:9/v1"
    visitor.restart()
    page = visitor.enter()

    page.goto(f"{visitor.house.address}/#/people")

    expect(page.get_by_test_id("problem")).to_contain_text("The gateway does not answer.")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_people_have_no_fault_of_access(
    visitor: Visitor, gateway: str, theme: str, width: int
) -> None:
    """At every width and in both themes, with a key, a revoked one and the form."""
    with caller(gateway, visitor.house.key) as own:
        for name in ("kitchen-tablet", "guest"):
            own.post("/api/keys", json={"name": name, "scopes": ["chat", "exec"]})
        own.delete("/api/keys/guest").raise_for_status()
    page = people(visitor, width, theme)
    page.get_by_text("Revoked keys (1)").click()
    assert faults(page, every=True) == []
    wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
    assert page.evaluate(wide) <= 0

    page.get_by_test_id("key-menu").click()
    page.get_by_test_id("menu-limit").click()
    assert faults(page, every=True) == []
