"""The editor of workflows: by mouse, by keys, by two at once, and with mistakes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.ui.conftest import Visitor

TWO = """\
# Two values, one of which reads the other.
id: NAME
graph:
  # the first
  - id: one   # a word
    use: value
    with: {value: warm}
  # the second
  - id: two
    use: value
    with:
      value: cold
outputs:
  text: "{{ two.value }}"
"""

Begin = Callable[..., Page]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One service for all tests of this module; each edits a workflow of another name."""
    state = tmp_path_factory.mktemp("editor") / "state"
    (state / "workflows").mkdir(parents=True)
    model = ScriptedGateway()
    with served(model.app) as gateway:
        home = House(state, model, gateway)
        (state / "key").write_text(home.key, encoding="utf-8")
        (state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
        home.more = {"services": {"moe-gateway": gateway, "speech-stt": "http://127.0.0.1:9"}}
        with home.running():
            yield home


@pytest.fixture
def begin(browser: Browser, home: House) -> Iterator[Begin]:
    """Sign in and open the editor of a workflow, with this text if there is one."""
    with ExitStack() as closing:
        visitor = Visitor(browser, home, closing)

        def begin(name: str, text: str = "", **how: object) -> Page:
            if text:
                with home.client() as client:
                    document = {"document": text.replace("NAME", name)}
                    client.put(f"/api/workflows/{name}/document", json=document).raise_for_status()
            page = visitor.enter(**how)
            page.goto(f"{home.address}/#/workflows{f'/{name}/edit' if name else ''}")
            return page

        yield begin
    assert visitor.complaints == []
    assert visitor.abroad == []


def node(page: Page, path: str) -> Locator:
    return page.locator(f'[data-testid=edit-node][data-path="{path}"]')


def centre(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, source: Locator, target: Locator, *, down: float = 0) -> None:
    """Press, move in steps, and release, as a hand does."""
    source.scroll_into_view_if_needed()
    page.mouse.move(*centre(source))
    page.mouse.down()
    x, y = centre(target)
    page.mouse.move(x, y + down, steps=8)
    page.mouse.up()


def wire(page: Page, origin: str, to: str) -> None:
    """Drag from the output port of a node to another node."""
    drag(page, node(page, origin).get_by_test_id("port-out"), node(page, to))


def text_of(page: Page) -> str:
    """The text of the draft as the text pane shows it."""
    return page.get_by_test_id("text").input_value()


def saved(page: Page) -> None:
    """Save with the dialog that shows the changes."""
    page.get_by_test_id("editor-save").click()
    page.get_by_test_id("diff").wait_for()
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("editor-state")).to_have_text("Saved")


@pytest.mark.proves("004-24")
def test_workflow_is_built_by_drag_and_drop_and_runs(begin: Begin, home: House) -> None:
    """From nothing to a result without writing YAML, and what was written by hand stays."""
    page = begin("")
    page.get_by_test_id("new-workflow").click()
    page.get_by_test_id("workflow-name").fill("greeting")
    page.get_by_test_id("dialog-create").click()
    tool = page.locator('[data-testid=palette-tool][data-tool="value"]')
    drag(page, tool, page.get_by_test_id("canvas"))
    expect(node(page, "value")).to_have_attribute("data-faulty", "true")
    drag(page, tool, page.get_by_test_id("canvas"), down=150)
    node(page, "value_2").wait_for()
    page.get_by_test_id("pane-text").click()
    page.get_by_test_id("text").fill(
        text_of(page).replace("- id: value\n", "# says it first\n- id: value # by hand\n")
    )
    expect(page.get_by_test_id("editor-undo")).to_be_enabled()

    wire(page, "value", "value_2")
    expect(page.get_by_test_id("wire")).to_have_count(1)
    node(page, "value").click()
    page.get_by_test_id("pane-node").click()
    page.get_by_test_id("input-value").fill("warm")
    page.get_by_test_id("input-value").blur()
    wire(page, "value_2", ":outputs")
    page.get_by_test_id("wire-input").fill("text")
    page.get_by_test_id("dialog-wire").click()
    expect(page.get_by_test_id("editor-state")).to_have_text("Not saved yet")
    saved(page)

    assert (home.state / "workflows" / "greeting.yaml").read_text() == (
        'kind: workflow\nid: greeting\nversion: 1\nabout: ""\ngraph:\n'
        "# says it first\n- id: value # by hand\n  use: value\n  with:\n    value: warm\n"
        "- id: value_2\n  use: value\n  with:\n    value: '{{ value.value }}'\n"
        "outputs:\n  text: '{{ value_2.value }}'\n"
    )
    page.get_by_test_id("pane-run").click()
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(page.locator(".run-whole")).to_contain_text("warm")
