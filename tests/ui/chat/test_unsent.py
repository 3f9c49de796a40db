"""What a person has written stays, whatever happens before the server has it: no network, a full
disk, a reload, a browser without room.
"""

from playwright.sync_api import Page, Route, expect

from tests.integration.agent.conversations.test_attachments import IMAGE
from tests.integration.agent.test_full_disk import fill, mounted, until
from tests.ui.chat.test_composer import give, seeing
from tests.ui.chat.test_conversations import ASKING
from tests.ui.conftest import Visitor, ended, faults, say, sign_in

__all__ = ["seeing"]

CROWD = """(left) => {
  let step = 1 << 24
  let text = ""
  while (step >= 1024) {
    try {
      sessionStorage.setItem("other", text + "x".repeat(step))
      text += "x".repeat(step)
    } catch {
      step /= 2
    }
  }
  sessionStorage.setItem("other", text.slice(left))
}"""
"""Leaves room for so many characters in the storage of a tab."""


def without_network(visitor: Visitor, page: Page) -> None:
    """What the browser itself reports of requests that the test lets fail is no complaint."""
    page.context.set_offline(False)
    visitor.complaints = [
        one for one in visitor.complaints if "ERR_INTERNET" not in one and "ERR_FAILED" not in one
    ]


def test_message_with_an_image_stays_without_a_network_and_over_a_reload(seeing: Visitor) -> None:
    """It is sent, image and all, when the server is there again."""
    seeing.house.model.when("chimney").say("It draws well.")
    page = seeing.enter()
    give(page, "chimney.png", image=IMAGE)
    chips = page.get_by_test_id("draft-attachments").get_by_role("listitem")
    expect(chips).to_have_count(1)
    page.context.set_offline(True)
    page.get_by_test_id("composer").fill("What is it with my chimney?")
    page.get_by_test_id("composer").press("Enter")
    expect(page.get_by_test_id("not-sent")).to_contain_text("cannot be reached")
    expect(chips).to_have_count(1)
    without_network(seeing, page)

    page.reload()

    expect(page.get_by_test_id("composer")).to_have_value("What is it with my chimney?")
    expect(chips).to_have_count(1)
    page.get_by_test_id("composer").press("Enter")
    ended(page.get_by_test_id("turn"))
    assert (
        seeing.house.model.requests[-1].body["messages"][-1]["content"][-1]["type"] == "image_url"
    )
    page.reload()
    expect(page.get_by_test_id("turn")).to_have_count(1)
    expect(page.get_by_test_id("composer")).to_have_value("")
    expect(chips).to_have_count(0)


def test_words_written_while_a_message_is_on_its_way_join_it_when_it_fails(
    visitor: Visitor,
) -> None:
    """A network that hangs for a minute costs neither the message nor the next thought."""
    page, held = visitor.enter(), list[Route]()
    page.route("**/turns", lambda route: held.append(route))
    field = page.get_by_test_id("composer")
    field.fill("The first thought")
    with page.expect_request("**/turns"):
        field.press("Enter")
    field.fill("and the next one")
    held[0].abort()

    expect(page.get_by_test_id("not-sent")).to_contain_text("cannot be reached")
    expect(field).to_have_value("The first thought\n\nand the next one")
    page.reload()
    expect(field).to_have_value("The first thought\n\nand the next one")
    without_network(visitor, page)


def test_slow_answer_about_a_new_conversation_does_not_end_it(visitor: Visitor) -> None:
    """The page has asked for the conversation before it existed, and hears that after its first
    message: the message stays where it is."""
    page, held = visitor.enter(), list[Route]()
    asked = "**/api/conversations/c-1?after=*"
    page.route(asked, lambda route: route.fallback() if held else held.append(route))
    with page.expect_request(asked):
        page.goto(f"{page.url.split('#')[0]}#/chat/c-1")
    turn = say(page, "Light the stove")
    expect(page.get_by_test_id("conversation")).to_have_count(1)

    error = {"message": "There is no conversation 'c-1'.", "type": "invalid_request_error"}
    with page.expect_response(lambda answer: answer.status == 404):
        held[0].fulfill(status=404, json={"error": error})

    ended(turn)
    expect(page.get_by_test_id("turn")).to_have_count(1)
    assert page.url.endswith("#/chat/c-1")


def test_full_disk_refuses_a_message_and_loses_nothing(visitor: Visitor) -> None:
    """The page says what is wrong; when there is room, the same message is sent as it was."""
    text = "Light the stove. " * 8_000
    visitor.service.close()
    with mounted(visitor.house.state) as disk:
        visitor.restart()
        page = visitor.enter()
        filler = fill(disk)
        page.get_by_test_id("composer").fill(text)
        page.get_by_test_id("composer").press("Enter")

        expect(page.get_by_test_id("not-sent")).to_contain_text("is full")
        expect(page.get_by_test_id("composer")).to_have_value(text.strip())
        expect(page.get_by_test_id("turn")).to_have_count(0)
        page.reload()
        expect(page.get_by_test_id("composer")).to_have_value(text.strip())
        filler.unlink()
        with visitor.house.client() as client:
            until(client, "/health", lambda answer: answer.status_code == 200)
        page.get_by_test_id("composer").press("Enter")
        ended(page.get_by_test_id("turn"))
        expect(page.get_by_test_id("composer")).to_have_value("")
        page.context.close()
        visitor.service.close()


def test_edit_of_a_question_outlives_a_session_that_ends(visitor: Visitor) -> None:
    """The pencil gives the half-written text again; Cancel forgets it."""
    page = visitor.enter()
    ended(say(page, "Light the stove"))
    page.get_by_test_id("turn").hover()
    page.get_by_test_id("edit").click()
    page.get_by_test_id("edit-text").fill("Light the stove, and the lamp")
    page.context.clear_cookies()
    sign_in(page, visitor.house.key)  # The next request of the page has found that it is needed.

    page.get_by_test_id("turn").hover()
    page.get_by_test_id("edit").click()
    expect(page.get_by_test_id("edit-text")).to_have_value("Light the stove, and the lamp")
    page.get_by_test_id("edit-cancel").click()
    page.get_by_test_id("edit").click()
    expect(page.get_by_test_id("edit-text")).to_have_value("Light the stove")


def test_answer_to_a_question_outlives_a_reload_and_a_lost_network(visitor: Visitor) -> None:
    """Who thinks long about an answer must not write it twice."""
    free = ASKING.replace(', choices: ["yes", "no"]', "")
    (visitor.house.state / "workflows" / "careful.yaml").write_text(free)
    visitor.restart()
    page = visitor.enter()
    page.get_by_test_id("model").select_option("workflow/careful")
    ended(say(page, "Do it"), "waiting")
    field = page.get_by_test_id("turn").get_by_test_id("answer-text")
    field.fill("Only if it rains")
    page.reload()
    expect(field).to_have_value("Only if it rains")

    page.context.set_offline(True)
    page.get_by_test_id("turn").get_by_test_id("answer-send").click()
    expect(page.get_by_test_id("turn").get_by_test_id("problem")).to_contain_text("reached")
    expect(field).to_have_value("Only if it rains")
    without_network(visitor, page)
    page.get_by_test_id("turn").get_by_test_id("answer-send").click()

    expect(page.get_by_test_id("answered")).to_contain_text("You answered: Only if it rains")
    expect(field).to_have_value("")  # the next question


def test_text_goes_before_files_where_the_browser_has_no_room_for_both(visitor: Visitor) -> None:
    """A tab keeps some million characters: more of them cost the files, and only at a reload."""
    page = visitor.enter()
    page.evaluate(CROWD, 250_000)
    give(page, "notes.txt", text="n" * 150_000)
    give(page, "more.txt", text="m" * 60_000)
    chips = page.get_by_test_id("draft-attachments").get_by_role("listitem")
    expect(chips).to_have_count(2)
    text = "A long message. " * 4_000
    page.get_by_test_id("composer").fill(text)
    page.reload()

    expect(page.get_by_test_id("composer")).to_have_value(text)
    expect(page.get_by_test_id("send")).to_be_enabled()
    assert faults(page) == []


def test_signing_out_forgets_edits_and_answers_too(visitor: Visitor) -> None:
    """The next person at a shared computer reads none of it."""
    page = visitor.enter()
    ended(say(page, "Light the stove"))
    page.get_by_test_id("turn").hover()
    page.get_by_test_id("edit").click()
    page.get_by_test_id("edit-text").fill("A secret")

    page.get_by_test_id("sign-out").click()
    page.get_by_test_id("key").wait_for()

    assert page.evaluate("JSON.stringify({ ...sessionStorage })") == "{}"
