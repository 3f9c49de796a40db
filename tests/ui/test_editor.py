"""The editor of workflows: by mouse, by keys, by two at once, and with mistakes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.ui.conftest import Visitor, faults

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
    expect(page.get_by_test_id("node-yaml")).to_contain_text("value: warm")
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


def test_node_is_added_and_wired_with_the_keyboard_alone(begin: Begin) -> None:
    """Arrow keys follow the wires, `a` adds, `w` wires, and the fields begin at `e`."""
    page = begin("wired", TWO)
    node(page, "one").wait_for()
    keys = page.keyboard

    page.get_by_role("treeitem", name="Inputs").focus()
    keys.press("ArrowDown")
    expect(page.locator("[data-kind=use]:focus")).to_have_count(1)
    keys.press("a")
    expect(page.get_by_test_id("palette-search")).to_be_focused()
    keys.type("time.now")
    keys.press("Enter")
    expect(node(page, "now")).to_be_focused()
    keys.press("w")
    node(page, "two").focus()
    keys.press("Enter")
    page.get_by_test_id("wire-output").select_option("iso")
    page.get_by_test_id("dialog-wire").press("Enter")
    expect(node(page, "two")).to_be_focused()
    keys.press("e")
    expect(page.get_by_test_id("input-value")).to_be_focused()
    expect(page.get_by_test_id("input-value")).to_have_value("{{ now.iso }}")


def test_node_is_removed_renamed_and_saved_with_the_keyboard_alone(
    begin: Begin, home: House
) -> None:
    """What was removed can be had back, and readers follow a new name."""
    page = begin("typed", TWO)
    node(page, "one").wait_for()
    keys = page.keyboard

    node(page, "one").focus()
    keys.press("Delete")
    expect(node(page, "one")).to_have_count(0)
    keys.press("Control+z")
    node(page, "one").wait_for()
    keys.press("Control+Shift+Z")
    expect(node(page, "one")).to_have_count(0)
    node(page, "two").focus()
    keys.press("F2")
    page.get_by_test_id("new-name").fill("later")
    keys.press("Enter")
    expect(node(page, "later")).to_be_focused()
    keys.press("Control+s")
    expect(page.get_by_test_id("dialog-save")).to_be_visible()
    page.get_by_test_id("dialog-save").press("Enter")
    expect(page.get_by_test_id("editor-state")).to_have_text("Saved")

    assert (home.state / "workflows" / "typed.yaml").read_text() == (
        "# Two values, one of which reads the other.\nid: typed\ngraph:\n  # the second\n"
        "  - id: later\n    use: value\n    with:\n      value: cold\n"
        'outputs:\n  text: "{{ later.value }}"\n'
    )


def test_two_browsers_edit_one_draft(begin: Begin, home: House) -> None:
    """Each sees the changes of the other; of two changes of one node the later one is offered."""
    mine = begin("shared", TWO)
    yours = begin("shared")
    yours.goto(f"{home.address}/#/workflows/shared/edit")
    for page in (mine, yours):
        node(page, "one").wait_for()
    yours.route("**/api/drafts/shared/etag", lambda route: route.fulfill(status=404))

    set_value(mine, "one", "mine")
    expect(mine.get_by_test_id("editor-undo")).to_be_enabled()
    set_value(yours, "two", "yours")
    expect(yours.get_by_test_id("node-yaml")).to_contain_text("value: yours")
    assert "value: mine" in text_of(yours)
    expect(mine.get_by_test_id("text")).to_have_value(text_of(yours))
    set_value(mine, "two", "first")
    expect(mine.get_by_test_id("node-yaml")).to_contain_text("value: first")
    set_value(yours, "two", "second")

    expect(yours.get_by_test_id("problem")).to_contain_text("Your change was not made")
    assert "value: first" in text_of(yours)
    yours.get_by_test_id("apply-anyway").click()
    expect(yours.get_by_test_id("node-yaml")).to_contain_text("value: second")
    expect(mine.get_by_test_id("text")).to_have_value(text_of(yours))
    for _ in range(4):
        mine.get_by_test_id("editor-undo").click()
    expect(mine.get_by_test_id("editor-state")).to_have_text("Saved")
    assert text_of(mine) == TWO.replace("NAME", "shared")


def set_value(page: Page, path: str, value: str) -> None:
    node(page, path).click()
    page.get_by_test_id("input-value").fill(value)
    page.get_by_test_id("input-value").press("Tab")


def test_typed_mistake_is_marked_and_nothing_is_lost(begin: Begin, home: House) -> None:
    """A text that is not YAML stays in the draft, over a reload and a new sign-in too."""
    page = begin("broken", TWO)
    node(page, "one").wait_for()
    page.get_by_test_id("pane-text").click()
    good = text_of(page)
    page.get_by_test_id("text").fill(good.replace("use: value", "use: values", 1))

    expect(page.get_by_test_id("text-fault")).to_contain_text("Did you mean 'value'?")
    expect(page.locator(".text-gutter [data-fault=error]")).to_have_text("6")
    expect(node(page, "one")).to_have_attribute("aria-label", "one, values, has an error")
    page.get_by_test_id("editor-save").click()
    expect(page.get_by_test_id("problem")).to_contain_text("is not saved")
    page.get_by_test_id("text").fill(good + "  - [not yaml\n")
    expect(page.get_by_test_id("text-fault")).to_contain_text("not YAML")
    page.locator('[data-testid=palette-tool][data-tool="value"]').click()
    expect(page.get_by_test_id("problem")).to_contain_text("not YAML")
    page.context.clear_cookies()
    page.get_by_test_id("text").fill(good.replace("cold", "typed while signed out"))
    page.get_by_test_id("key").fill(home.key)
    page.get_by_test_id("sign-in").click()
    node(page, "two").wait_for()

    assert "typed while signed out" in text_of(page)
    expect(page.get_by_test_id("editor-state")).to_have_text("Unsaved changes")
    page.reload()
    node(page, "two").wait_for()
    assert "typed while signed out" in text_of(page)


def test_fields_of_a_node_follow_its_text_and_graph(begin: Begin) -> None:
    """Errors are told at the field, wires are removed, and a saved version of others is seen."""
    page = begin("fields", TWO)
    node(page, "two").click()
    page.get_by_test_id("node-settings").click()
    page.get_by_test_id("input-if").fill("inputs.keep")
    page.get_by_test_id("input-if").press("Tab")

    expect(page.locator("[id='input-if-fault']")).to_contain_text("one expression")
    page.get_by_test_id("input-if").fill("")
    page.get_by_test_id("input-if").press("Tab")
    expect(page.locator("[id='input-if-fault']")).to_be_hidden()
    page.get_by_test_id("pane-text").click()
    page.get_by_test_id("text").evaluate(
        "field => { field.focus(); const at = field.value.indexOf('warm');"
        " field.setSelectionRange(at, at); field.click() }"
    )
    expect(node(page, "one")).to_have_attribute("aria-selected", "true")
    page.get_by_test_id("pane-node").click()
    wire(page, "one", "two")
    page.get_by_test_id("wire-input").select_option("value")
    page.get_by_test_id("dialog-wire").click()
    expect(page.get_by_test_id("wire")).to_have_count(2)
    x, y = page.locator("[data-testid=wire][data-to=two]").evaluate(
        "path => { const at = path.getPointAtLength(path.getTotalLength() / 2)"
        ".matrixTransform(path.getScreenCTM()); return [at.x, at.y] }"
    )
    page.mouse.click(x, y)
    expect(page.locator("[data-testid=wire][data-to=two]")).to_have_attribute("data-chosen", "true")
    page.keyboard.press("Delete")
    expect(page.get_by_test_id("wire")).to_have_count(1)
    assert "with: {}" in text_of(page)


def test_scopes_inputs_and_order_are_edited_by_mouse(begin: Begin, home: House) -> None:
    """A tool is dropped into a scope, reads an input, and the draft is previewed unsaved."""
    text = "id: NAME\nsteps:\n- id: clock\n  use: time.now\n- id: box\n  graph: []\n"
    with home.client() as client:
        client.put("/api/drafts/scopes", json={"document": text.replace("NAME", "scopes")})
    page = begin("scopes")
    node(page, "box").wait_for()

    drag(page, page.locator('[data-tool="value"]'), node(page, "box"))
    node(page, "box/value").wait_for()
    node(page, ":inputs").click()
    page.get_by_test_id("new-input").fill("topic")
    page.get_by_test_id("add-input").click()
    expect(page.get_by_test_id("inputs-list")).to_contain_text("topictext")
    wire(page, ":inputs", "box/value")
    expect(page.get_by_test_id("wire")).to_have_count(1)
    node(page, "box").click(position={"x": 20, "y": 12})
    page.get_by_test_id("node-earlier").click()
    expect(page.get_by_test_id("node-yaml")).to_contain_text("value: '{{ inputs.topic }}'")
    page.get_by_test_id("pane-run").click()
    page.get_by_test_id("input-topic").fill("tea")
    page.get_by_test_id("dry-run-start").click()

    expect(page.get_by_test_id("dry-run")).to_contain_text("box/value")
    assert text_of(page) == (
        "id: scopes\nsteps:\n- id: box\n  graph:\n  - id: value\n    use: value\n    with:\n"
        "      value: '{{ inputs.topic }}'\n- id: clock\n  use: time.now\n"
        "inputs:\n  topic:\n    type: text\n"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_editor_has_no_fault_of_access(begin: Begin, theme: str) -> None:
    """Names, roles and contrast in each pane, at a wide and a narrow window."""
    page = begin(f"axe-{theme}", TWO, theme=theme)
    node(page, "two").click()
    found = []
    for width, height in ((1280, 800), (768, 1024), (360, 740)):
        page.set_viewport_size({"width": width, "height": height})
        for pane in ("node", "text", "run"):
            page.get_by_test_id(f"pane-{pane}").click()
            found += [f"{pane}, {width}: {fault}" for fault in faults(page, every=True)]
        wide = page.evaluate("document.querySelector('main').scrollWidth - innerWidth")
        assert wide <= 0
    assert found == []
