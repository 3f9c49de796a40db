"""A repair of a bug on the page of its run."""

from pathlib import Path

from playwright.sync_api import expect

from tests.integration.agent.code.conftest import follow_until
from tests.integration.agent.code.test_fix_bug import COMMAND, RIGHT
from tests.integration.agent.code.test_limits import REFUSALS, shop
from tests.ui.conftest import Visitor


def test_page_shows_each_refused_change_and_why(visitor: Visitor, tmp_path: Path) -> None:
    """A person who reviews a fix must see what the model tried to change and could not."""
    model = visitor.house.model.when("")
    for path in REFUSALS:
        model.say(RIGHT.replace("shop/prices.py", path))
    inputs = {"repo": str(shop(tmp_path)), "command": COMMAND, "may_touch": ["shop/**"]}
    body = {"workflow": "fix-bug", "inputs": inputs, "interactive": False}
    with visitor.house.client() as client:
        run = client.post("/api/runs", json=body).json()["run"]
        follow_until(client, run, "end")
    page = visitor.enter()
    page.goto(page.url.split("#")[0] + f"#/runs/{run}")

    inspector = page.get_by_test_id("inspector").locator("visible=true")
    for number, (reason, message) in enumerate(REFUSALS.values()):
        path = f"rounds[0]/attempts[{number}]/edit"
        page.locator(f'[data-testid=step][data-path="{path}"]').click()
        output = inspector.get_by_test_id("inspector-output")
        expect(output).to_contain_text(reason)
        expect(output).to_contain_text(message)
