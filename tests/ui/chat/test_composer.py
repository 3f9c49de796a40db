"""The composer: files and images by button, paste and drop; the prompt library; settings."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.agent.conversations.test_turns import CAREFUL
from tests.ui.conftest import Visitor, ended, faults, say

DRAW = """([width, height, type]) => {
  const canvas = Object.assign(document.createElement("canvas"), { width, height })
  canvas.getContext("2d").fillRect(0, 0, width / 2, height)
  return canvas.toDataURL(type)
}"""
GIVE = """([name, text, image, event]) => {
  const data = new DataTransfer()
  const bytes = image && Uint8Array.from(atob(image.split(",")[1]), (c) => c.charCodeAt(0))
  data.items.add(new File([bytes || text], name, { type: image ? image.slice(5, 14) : "text/plain" }))
  const target = document.querySelector("#say")
  const made = event === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
  target.dispatchEvent(made)
}"""  # noqa: E501


@pytest.fixture
def seeing(visitor: Visitor) -> Visitor:
    """A visitor of a house whose model reads images and says how large its context is; another one
    does not see."""
    expert = visitor.house.model.expert | {"vision": True, "context": 8192}
    blind = {**expert, "name": "blind", "model": "blind-one", "vision": False}
    visitor.house.model.experts = [expert, blind]
    visitor.restart()
    return visitor


def sent(visitor: Visitor) -> list[dict[str, Any]]:
    """The parts of the message that the model was sent last."""
    content: list[dict[str, Any]] = visitor.house.model.requests[-1].body["messages"][-1]["content"]
    return content


def give(page: Page, name: str, *, text: str = "", image: str = "", event: str = "paste") -> None:
    """Paste or drop a file."""
    page.evaluate(GIVE, [name, text, image, event])


def test_files_come_by_button_paste_and_drop_and_are_sent(seeing: Visitor, tmp_path: Path) -> None:
    """Each way leads to the same chips; they outlive a reload and are shown with the question."""
    page = seeing.enter()
    (tmp_path / "notes.md").write_text("Tea at four.", encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("attach").click()
    chooser.value.set_files(tmp_path / "notes.md")
    give(page, "list.txt", text="milk", event="drop")
    give(page, "photo.png", image=page.evaluate(DRAW, [60, 40, "image/png"]))
    chips = page.get_by_test_id("draft-attachment")
    expect(chips).to_have_count(3)
    assert faults(page, every=True) == []
    page.get_by_role("button", name="Remove list.txt").click()
    expect(page.get_by_test_id("composer")).to_be_focused()
    page.reload()
    expect(chips).to_have_count(2)

    turn = say(page, "What is this?")
    ended(turn)
    expect(chips).to_have_count(0)
    text, notes, named, image = sent(seeing)
    assert (text["text"], named["text"]) == ("What is this?", "Image `photo.png`:")
    assert "Tea at four." in notes["text"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    picture = turn.get_by_role("img", name="photo.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 60
    expect(turn.get_by_role("link", name="notes.md")).to_be_visible()
    assert faults(page, every=True) == []


def test_large_image_is_made_smaller_before_it_is_sent(seeing: Visitor) -> None:
    """A photo of a phone has 12 million pixels, of which a model looks at one."""
    page = seeing.enter()
    give(page, "photo.jpg", image=page.evaluate(DRAW, [4000, 3000, "image/jpeg"]))
    expect(page.get_by_test_id("draft-attachment")).to_have_count(1)
    turn = say(page, "What is this?")
    ended(turn)
    size = turn.get_by_role("img").evaluate("(i) => i.decode().then(() => i.naturalWidth)")

    assert size == 1536
    assert sent(seeing)[2]["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_file_that_no_model_reads_is_refused_with_the_reason(visitor: Visitor) -> None:
    """Nothing is attached in silence that would be garbage to a model."""
    page = visitor.enter()
    fault = page.get_by_test_id("not-sent")
    for name, text, reason in (
        ("a.bin", "a\0b", "“a.bin” is not a text file or an image"),
        ("long.txt", "x" * 200_001, "“long.txt” is too long: a text file may have 200,000"),
        ("empty.txt", " ", "“empty.txt” is empty."),
    ):
        give(page, name, text=text)
        expect(fault).to_contain_text(reason)
    expect(page.get_by_test_id("draft-attachment")).to_have_count(0)
    assert faults(page, every=True) == []


def test_image_for_a_model_that_does_not_see_is_refused_and_kept(seeing: Visitor) -> None:
    """The draft stays as it was; with another model it is sent."""
    page = seeing.enter()
    page.get_by_test_id("model").select_option(label="blind-one")
    give(page, "photo.png", image=page.evaluate(DRAW, [60, 40, "image/png"]))
    page.get_by_test_id("composer").fill("What is this?")
    page.get_by_test_id("composer").press("Enter")
    expect(page.get_by_test_id("not-sent")).to_contain_text("'expert/blind' cannot read images")
    expect(page.get_by_test_id("composer")).to_have_value("What is this?")
    expect(page.get_by_test_id("draft-attachment")).to_have_count(1)
    expect(page.get_by_test_id("turn")).to_have_count(0)
    assert seeing.house.model.requests == []

    page.get_by_test_id("model").select_option(label="Agent")
    page.get_by_test_id("send").click()
    ended(page.get_by_test_id("turn"))


def test_prompt_of_the_library_is_chosen_by_its_name(visitor: Visitor) -> None:
    """A slash opens the library; the keyboard chooses; the text can be changed before sending."""
    page = visitor.enter()
    with visitor.house.client() as client:
        document = {"document": "---\ntags: [poem]\n---\nWrite a verse about tea.\n"}
        client.put("/api/prompts/verse", json=document).raise_for_status()
    field, prompts = page.get_by_test_id("composer"), page.get_by_test_id("prompts")
    field.press_sequentially("/")
    expect(prompts.get_by_role("option").nth(1)).to_be_visible()
    assert faults(page, every=True) == []
    field.press("ArrowDown")
    expect(prompts.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    field.press("Escape")
    expect(prompts).to_be_hidden()
    field.press_sequentially("ver")
    expect(prompts.get_by_role("option").first).to_contain_text("/verse")
    field.press("Enter")

    expect(prompts).to_be_hidden()
    expect(field).to_have_value("Write a verse about tea.")
    expect(page.get_by_test_id("turn")).to_have_count(0)
    field.fill("/nosuchprompt")
    expect(prompts).to_contain_text("No prompt has this name.")
    field.press("Enter")
    ended(page.get_by_test_id("turn"))


def test_settings_of_a_conversation_are_sent_with_its_turns_and_kept(seeing: Visitor) -> None:
    """Model, instructions, temperature and length belong to the conversation, on every device."""
    page = seeing.enter()
    page.get_by_test_id("settings").click()
    assert faults(page, every=True) == []
    page.get_by_test_id("setting-system").fill("Rhyme.")
    page.get_by_test_id("setting-temperature").fill("0.25")
    page.get_by_test_id("setting-max_tokens").fill("99")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("settings")).to_be_focused()
    page.get_by_test_id("model").select_option(label="blind-one")
    ended(say(page, "Hello"))
    body = seeing.house.model.requests[-1].body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("blind", 0.25, 99)
    assert "Rhyme." in body["messages"][0]["content"]

    page.reload()
    expect(page.get_by_test_id("model")).to_have_value("expert/blind")
    page.get_by_test_id("settings").click()
    expect(page.get_by_test_id("setting-temperature")).to_have_value("0.25")
    page.get_by_test_id("setting-temperature").fill("")
    page.get_by_test_id("dialog-save").click()
    page.get_by_test_id("again").click()
    expect(page.get_by_test_id("versions")).to_contain_text("2 of 2")
    ended(page.get_by_test_id("turn"))
    assert "temperature" not in seeing.house.model.requests[-1].body
    page.get_by_test_id("new-chat").click()
    expect(page.get_by_test_id("turn")).to_have_count(0)
    ended(say(page, "Hello again"))
    assert "Rhyme." not in str(seeing.house.model.requests[-1].body)


def test_settings_of_a_new_conversation_outlive_a_reload(visitor: Visitor) -> None:
    """Instructions take a while to write, and belong to one conversation only."""
    page = visitor.enter()
    for written in ("", "Rhyme."):
        page.get_by_test_id("settings").click()
        expect(page.get_by_test_id("setting-system")).to_have_value(written)
        page.get_by_test_id("setting-system").fill("Rhyme.")
        page.get_by_test_id("dialog-save").click()
        page.reload()
        page.get_by_test_id("composer").wait_for()
    ended(say(page, "Hello"))
    assert "Rhyme." in str(visitor.house.model.requests[-1].body)
    page.get_by_test_id("new-chat").click()
    page.get_by_test_id("settings").click()
    expect(page.get_by_test_id("setting-system")).to_have_value("")


def test_answer_shows_its_speed_and_the_context_its_size(seeing: Visitor) -> None:
    """A person sees when a conversation becomes too long for its model, and how fast it answers."""
    seeing.house.model.when("slow").say("one two three four five", pause=0.05)
    page = seeing.enter()
    expect(page.get_by_test_id("context")).to_be_hidden()
    page.get_by_test_id("model").select_option(label="scripted")
    turn = say(page, "slow")
    ended(turn)

    expect(turn.get_by_test_id("facts")).to_have_text(re.compile(r"\d tokens/s"))
    expect(page.get_by_test_id("context")).to_have_text(re.compile(r"^\d+ %$"))
    gauge = page.locator("context-gauge")
    expect(gauge).to_have_attribute("title", re.compile("of 8,192 tokens of the context of "))
    assert faults(page, every=True) == []


def test_file_is_no_answer_to_a_question(seeing: Visitor) -> None:
    """An answer goes to a step that waits for words; the file stays in the draft."""
    (seeing.house.state / "workflows" / "careful.yaml").write_text(CAREFUL, encoding="utf-8")
    seeing.restart()
    page = seeing.enter()
    page.get_by_test_id("model").select_option("workflow/careful")
    ended(say(page, "Go"), "waiting")
    give(page, "notes.md", text="Tea at four.")
    expect(page.get_by_test_id("draft-attachment")).to_have_count(1)
    page.get_by_test_id("composer").fill("yes")
    page.get_by_test_id("composer").press("Enter")

    expect(page.get_by_test_id("not-sent")).to_contain_text("Files cannot be part of the answer")
    expect(page.get_by_test_id("composer")).to_have_value("yes")
    page.get_by_test_id("remove-attachment").click()
    page.get_by_test_id("send").click()
    ended(page.get_by_test_id("turn"))


@pytest.mark.parametrize(("width", "height"), [(360, 640), (640, 400), (740, 360)])
def test_composer_fits_a_phone_and_double_zoom(seeing: Visitor, width: int, height: int) -> None:
    """With chips, a gauge and a list of prompts, every button is still on the screen."""
    page = seeing.enter(width=width, height=height)
    ended(say(page, "Hello " * 300))
    give(page, "a file with a very long name that has no end.txt", text="milk")
    expect(page.get_by_test_id("draft-attachment")).to_have_count(1)
    page.get_by_test_id("composer").press_sequentially("/")
    expect(page.get_by_test_id("prompt").first).to_be_visible()
    for name in ("attach", "dictate", "send", "settings", "model", "remove-attachment", "prompts"):
        box = page.get_by_test_id(name).bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width, name
        assert 0 <= box["y"] <= box["y"] + box["height"] <= height, name
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults(page, every=True) == []
