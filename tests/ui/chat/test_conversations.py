"""What a person says in the chat is kept: over reloads, lost networks, second tabs, sign-ins."""

import threading

import pytest
from playwright.sync_api import expect

from tests.integration.agent.conftest import House
from tests.ui.chat.relay import relayed
from tests.ui.conftest import Visitor, ended, faults, say, sign_in

STORY = "Once there was a stove that never went out because somebody always came in time."


def test_reload_during_an_answer_continues_to_show_it(visitor: Visitor) -> None:
    """F5 is a habit; it must cost neither the question nor the work behind the answer."""
    held = threading.Event()
    visitor.house.model.when("story").say(STORY, held=held, held_after=3)
    page = visitor.enter()
    expect(say(page, "Tell me a story").get_by_test_id("answer")).to_have_text("Once there was")

    page.reload()

    turn = page.get_by_test_id("turn")
    expect(turn.get_by_test_id("question")).to_contain_text("Tell me a story")
    expect(turn.get_by_test_id("answer")).to_have_text("Once there was")
    held.set()
    ended(turn)
    expect(turn.get_by_test_id("answer")).to_have_text(STORY)
    assert visitor.house.model.aborted == 0


def test_lost_network_during_an_answer_is_survived(visitor: Visitor) -> None:
    """A phone changes from one network to another; the answer is there when it is back."""
    held = threading.Event()
    visitor.house.model.when("story").say(STORY, held=held, held_after=3)
    with relayed(visitor.house.address) as relay:
        visitor.house.address = relay.address
        page = visitor.enter()
        turn = say(page, "Tell me a story")
        expect(turn.get_by_test_id("answer")).to_have_text("Once there was")

        relay.lose()
        held.set()
        visitor.house.model.wait_until(lambda model: model.running == 0)
        expect(page.get_by_text("Hearth cannot be reached.")).to_be_visible()
        expect(turn.get_by_test_id("answer")).to_have_text("Once there was")
        relay.restore()

        ended(turn)
        expect(turn.get_by_test_id("answer")).to_have_text(STORY)
        expect(page.get_by_text("Hearth cannot be reached.")).to_be_hidden()
        page.goto("about:blank")
    assert visitor.house.model.aborted == 0
    visitor.complaints = [one for one in visitor.complaints if "net::ERR" not in one]


def test_turns_of_every_end_are_there_after_a_reload(visitor: Visitor) -> None:
    """What a person has asked is theirs, also when the answer failed or they stopped it."""
    visitor.house.model.when("weather").refuse(503, "No expert is healthy.")
    visitor.house.model.when("forever").hang("one two three four", after=2)
    page = visitor.enter()
    ended(say(page, "How is the weather?"), "failed")
    stopped = say(page, "Talk forever")
    expect(stopped.get_by_test_id("answer")).to_have_text("one two")
    page.get_by_role("button", name="Stop answering").click()
    ended(stopped, "cancelled")

    page.reload()

    failed, stopped = page.get_by_test_id("turn").first, page.get_by_test_id("turn").last
    ended(failed, "failed")
    expect(failed.get_by_test_id("problem")).to_contain_text("No expert is healthy.")
    ended(stopped, "cancelled")
    expect(stopped.get_by_test_id("answer")).to_have_text("one two")
    expect(stopped).to_contain_text("Stopped")


def test_two_tabs_of_a_conversation_show_each_others_turns(visitor: Visitor) -> None:
    """A conversation that goes on at the desk is the same one on the sofa."""
    held = threading.Event()
    visitor.house.model.when("story").say(STORY, held=held, held_after=3)
    first = visitor.enter()
    ended(say(first, "hello"))
    second = first.context.new_page()
    second.goto(first.url)
    expect(second.get_by_test_id("turn")).to_have_count(1)

    say(second, "Tell me a story")

    turn = first.get_by_test_id("turn").last
    expect(turn.get_by_test_id("answer")).to_have_text("Once there was")
    held.set()
    ended(turn)
    expect(turn.get_by_test_id("answer")).to_have_text(STORY)


def test_message_that_was_not_accepted_stays_in_the_field(visitor: Visitor) -> None:
    """A long message that is gone because the network was is never written again."""
    page = visitor.enter()
    page.context.set_offline(True)
    page.get_by_test_id("composer").fill("A long message")
    page.get_by_test_id("composer").press("Enter")

    expect(page.get_by_test_id("not-sent")).to_contain_text("cannot be reached")
    expect(page.get_by_test_id("composer")).to_have_value("A long message")
    expect(page.get_by_test_id("turn")).to_have_count(0)
    page.context.set_offline(False)
    page.get_by_test_id("composer").press("Enter")

    ended(page.get_by_test_id("turn"))
    expect(page.get_by_test_id("not-sent")).to_be_hidden()
    visitor.complaints = [one for one in visitor.complaints if "ERR_INTERNET" not in one]


ASKING = """
id: careful
inputs: {messages: messages}
steps:
  - id: sure
    use: human.ask
    with: {question: "Shall I do it?", choices: ["yes", "no"], show: {files: 3}}
  - id: many
    use: human.ask
    with: {question: "How many?", returns: integer}
outputs: {text: "You said {{ sure.answer }}, {{ many.answer }} times."}
"""


@pytest.fixture
def careful(house: House) -> None:
    """A workflow that asks twice."""
    (house.state / "workflows" / "careful.yaml").write_text(ASKING)


@pytest.mark.usefixtures("careful")
def test_question_is_a_form_in_the_turn_and_written_words_answer_it(visitor: Visitor) -> None:
    """A question in the middle of a talk is answered where it is asked; it starts nothing new."""
    page = visitor.enter()
    page.get_by_test_id("model").select_option("workflow/careful")

    turn = say(page, "Do it")
    ended(turn, "waiting")
    expect(turn.get_by_test_id("question-form")).to_contain_text("Shall I do it?")
    panel = page.get_by_test_id("run-panel")
    expect(panel.get_by_test_id("question-form")).to_contain_text("Shall I do it?")
    expect(page.get_by_test_id("nav-chat").get_by_test_id("badge")).to_contain_text("1 question")
    expect(page).to_have_title("(1) Chat · Hearth")
    assert faults(page) == []
    turn.get_by_test_id("choice").filter(has_text="yes").click()
    expect(turn.get_by_test_id("question-form")).to_contain_text("How many?")
    expect(turn.get_by_test_id("answered")).to_contain_text("You answered: yes")

    page.get_by_test_id("composer").fill("a few")
    page.get_by_test_id("composer").press("Enter")
    expect(page.get_by_test_id("not-sent")).to_contain_text("Write a number.")
    expect(page.get_by_test_id("composer")).to_have_value("a few")
    page.get_by_test_id("composer").fill("3")
    page.get_by_test_id("composer").press("Enter")

    ended(turn)
    expect(turn.get_by_test_id("answer")).to_have_text("You said yes, 3 times.")
    expect(page.get_by_test_id("turn")).to_have_count(1)
    expect(page.get_by_test_id("badge")).to_have_count(0)
    expect(page).to_have_title("Chat · Hearth")
    page.reload()
    expect(page.get_by_test_id("answered")).to_contain_text("You answered: 3")


@pytest.mark.usefixtures("careful")
def test_waiting_turn_is_there_after_a_reload_and_can_be_stopped(visitor: Visitor) -> None:
    """A question waits for days; who comes back finds it, or ends it."""
    page = visitor.enter()
    page.get_by_test_id("model").select_option("workflow/careful")
    ended(say(page, "Do it"), "waiting")

    page.reload()
    turn = page.get_by_test_id("turn")
    expect(turn.get_by_test_id("question-form")).to_contain_text("Shall I do it?")
    turn.get_by_test_id("stop-run").click()

    ended(turn, "cancelled")
    expect(turn.get_by_test_id("question-form")).to_have_count(0)
    expect(turn.get_by_test_id("answered")).to_contain_text("Not answered")


@pytest.mark.usefixtures("careful")
def test_run_outside_a_conversation_that_waits_is_counted_at_the_runs(visitor: Visitor) -> None:
    """A nightly job that asks is found without looking through the list."""
    page = visitor.enter()
    with visitor.house.client() as client:
        body = {"workflow": "careful", "inputs": {"messages": []}}
        client.post("/api/runs", json=body).raise_for_status()

    expect(page.get_by_test_id("nav-runs").get_by_test_id("badge")).to_contain_text("1 question")
    expect(page.get_by_test_id("nav-chat").get_by_test_id("badge")).to_have_count(0)


def test_expired_session_keeps_the_draft_and_says_why(visitor: Visitor) -> None:
    """A long message must survive the sign-in, and a person must know why it is there."""
    visitor.house.model.when("long message").say("Read.")
    page = visitor.enter()
    ended(say(page, "hello"))
    page.get_by_test_id("composer").fill("A long message")
    page.context.clear_cookies()
    page.get_by_test_id("composer").press("Enter")

    expect(page.get_by_test_id("login-reason")).to_contain_text("Your session has ended.")
    expect(page.get_by_test_id("login-reason")).to_contain_text("is kept")
    assert faults(page) == []
    sign_in(page, visitor.house.key)

    expect(page.get_by_test_id("composer")).to_have_value("A long message")
    expect(page.get_by_test_id("turn")).to_have_count(1)
    page.get_by_test_id("composer").press("Enter")
    ended(page.get_by_test_id("turn").last)
    expect(page.get_by_test_id("answer").last).to_have_text("Read.")


def test_signing_out_forgets_the_draft_and_gives_no_reason(visitor: Visitor) -> None:
    """On a shared computer the next person must not read what was being written."""
    page = visitor.enter()
    page.get_by_test_id("composer").fill("A secret")

    page.get_by_test_id("sign-out").click()

    page.get_by_test_id("key").wait_for()
    expect(page.get_by_test_id("login-reason")).to_have_count(0)
    sign_in(page, visitor.house.key)
    expect(page.get_by_test_id("composer")).to_have_value("")


def test_thread_says_what_the_model_no_longer_sees(visitor: Visitor) -> None:
    """An assistant that has forgotten must not look as if it knew."""
    visitor.house.model.expert["context"] = 2048
    visitor.restart()
    visitor.house.model.when("story").say("The stove is warm. " * 300)
    page = visitor.enter()
    ended(say(page, "My name is Ada"))
    ended(say(page, "Tell me a story"))
    expect(page.get_by_test_id("unseen")).to_have_count(0)

    ended(say(page, "What is my name?"))

    line = page.get_by_test_id("unseen")
    expect(line).to_have_text(
        "Earlier messages are no longer seen by the model, the one above only in part"
    )
    assert line.evaluate("(p) => p.nextElementSibling.textContent.includes('What is my name?')")
    page.reload()
    expect(page.get_by_test_id("unseen")).to_have_count(1)
