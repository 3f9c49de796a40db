"""The chat: what one asks, what comes back while it comes, and what happens behind it."""

from playwright.sync_api import expect

from tests.ui.conftest import Visitor, ended, say

STORY = "Once there was a stove that never went out because somebody always came in time."


def test_answer_streams_word_by_word(visitor: Visitor) -> None:
    """A person reads along; an answer that comes all at once feels like a machine that hangs."""
    visitor.house.model.when("story").hang(STORY, after=3)
    visitor.house.model.when("again").say(STORY)
    page = visitor.enter()

    turn = say(page, "Tell me a story")
    expect(turn.get_by_test_id("answer")).to_have_text("Once there was")
    assert visitor.house.model.running == 1
    page.get_by_role("button", name="Stop answering").click()
    ended(turn, "cancelled")

    again = say(page, "Tell it again")
    ended(again)
    expect(again.get_by_test_id("answer")).to_have_text(STORY)


def test_enter_sends_and_shift_enter_writes_on(visitor: Visitor) -> None:
    """A question may have more than one line, and is sent without the mouse."""
    page = visitor.enter()
    field = page.get_by_test_id("composer")

    field.fill("first line")
    field.press("Shift+Enter")
    field.press_sequentially("second line")
    field.press("Enter")

    expect(page.get_by_test_id("question")).to_contain_text("first line\nsecond line")
    expect(field).to_have_value("")


def test_stop_ends_the_answer_and_the_work_behind_it(visitor: Visitor) -> None:
    """Who has read enough must not pay for the rest: the run is cancelled, not only hidden."""
    visitor.house.model.when("forever").say("word " * 500, pause=0.1)
    page = visitor.enter()
    turn = say(page, "Talk forever")
    expect(turn.get_by_test_id("answer")).to_contain_text("word")

    page.get_by_role("button", name="Stop answering").click()

    ended(turn, "cancelled")
    expect(turn).to_contain_text("Stopped")
    visitor.house.model.wait_until(lambda model: model.aborted == 1)


def test_failed_answer_says_why_and_can_be_tried_again(visitor: Visitor) -> None:
    """A model that is down is an everyday thing; the page says why and offers the way on."""
    visitor.house.model.when("weather").refuse(503, "No expert is healthy.").say("It is fine now.")
    page = visitor.enter()

    turn = say(page, "How is the weather?")
    ended(turn, "failed")
    expect(turn.get_by_test_id("problem")).to_contain_text("No expert is healthy.")
    page.get_by_role("button", name="Try again").click()

    ended(turn)
    expect(page.get_by_test_id("turn")).to_have_count(1)
    expect(turn.get_by_test_id("answer")).to_have_text("It is fine now.")
    page.get_by_test_id("earlier").click()
    ended(turn, "failed")
    expect(turn.get_by_test_id("problem")).to_contain_text("No expert is healthy.")


def test_answer_that_breaks_off_keeps_its_words_and_says_so(visitor: Visitor) -> None:
    """Half an answer must not look like a whole one."""
    visitor.house.model.when("snap").lose("one two three four five", after=3, pause=0.05)
    page = visitor.enter()

    turn = say(page, "snap")

    ended(turn, "failed")
    expect(turn.get_by_test_id("answer")).to_contain_text("one")
    expect(turn.get_by_test_id("problem")).to_contain_text("broke off")


def test_model_text_becomes_paragraphs_and_code_and_never_markup(visitor: Visitor) -> None:
    """What a model writes may come from a stranger's web page: it is shown, it does not act."""
    attack = "<img src=x onerror=\"document.title='taken'\"><script>1</script>"
    text = f"First.\n\nSecond with **weight**.\n\n```python\nprint('{attack}')\n```\n\n{attack}"
    visitor.house.model.when("code").say(text)
    page = visitor.enter()

    turn = say(page, "Show me code")
    ended(turn)

    answer = turn.get_by_test_id("answer")
    expect(answer.locator("p")).to_have_count(3)
    expect(answer.locator("strong")).to_have_text("weight")
    expect(answer.get_by_test_id("code-block")).to_contain_text(f"print('{attack}')")
    expect(answer.locator("img, script")).to_have_count(0)
    assert "taken" not in page.title()


def test_reader_who_scrolled_up_is_left_alone(visitor: Visitor) -> None:
    """Text that pulls the page away while one reads it is the worst of all streams."""
    visitor.house.model.when("long").say("A line of text.\n\n" * 120, pause=0.01)
    page = visitor.enter()
    turn = say(page, "Write something long")
    newest = page.get_by_role("button", name="Newest")
    scroller = page.get_by_role("region", name="Messages")
    page.wait_for_function("() => document.querySelector('.thread-scroll').scrollTop > 400")

    scroller.evaluate("(box) => box.scrollTo(0, 40)")
    expect(newest).to_be_visible()
    ended(turn)

    assert scroller.evaluate("(box) => box.scrollTop") == 40
    newest.click()
    expect(newest).to_be_hidden()


def test_page_follows_text_that_comes_faster_than_it_is_drawn(visitor: Visitor) -> None:
    """On a slow machine much comes between two pictures: that is no scrolling of the reader's."""
    page = visitor.enter()
    ended(say(page, "hello"))
    scroller = page.get_by_role("region", name="Messages")

    left = scroller.evaluate(
        """(box) => new Promise((done) => {
          let lines = 0
          const more = setInterval(() => {
            const line = document.createElement("p")
            line.textContent = "A line of text."
            box.firstElementChild.append(line, line.cloneNode(true), line.cloneNode(true))
            if (++lines < 150) return
            clearInterval(more)
            const left = () => box.scrollHeight - box.scrollTop - box.clientHeight
            requestAnimationFrame(() => requestAnimationFrame(() => done(left())))
          }, 2)
        })"""
    )

    assert left < 48
    expect(page.get_by_role("button", name="Newest")).to_be_hidden()


def test_conversation_goes_on_and_is_found_again(visitor: Visitor) -> None:
    """The second question belongs to the first, and both are there after a reload."""
    page = visitor.enter()
    ended(say(page, "My name is Ada"))
    ended(say(page, "What is my name?"))
    sent = visitor.house.model.requests[-1].body["messages"]

    page.reload()

    expect(page.get_by_test_id("question")).to_have_text(
        ["You asked: My name is Ada", "You asked: What is my name?"]
    )
    assert [m["content"] for m in sent if m["role"] == "user"][-2:] == [
        "My name is Ada",
        "What is my name?",
    ]
    page.get_by_test_id("new-chat").click()
    expect(page.get_by_test_id("turn")).to_have_count(0)
    page.get_by_test_id("conversations").get_by_text("My name is Ada").click()
    expect(page.get_by_test_id("turn")).to_have_count(2)


def test_answer_goes_on_while_one_looks_at_another_page(visitor: Visitor) -> None:
    """Leaving the chat for a moment must not hang up on the model."""
    visitor.house.model.when("story").say(STORY, pause=0.1)
    page = visitor.enter()
    turn = say(page, "Tell me a story")
    expect(turn.get_by_test_id("answer")).to_contain_text("Once")

    page.get_by_test_id("nav-runs").click()
    page.get_by_test_id("runs").wait_for()
    page.go_back()

    expect(page.get_by_test_id("answer")).to_have_text(STORY)


def test_workflow_can_be_picked_as_the_one_who_answers(visitor: Visitor) -> None:
    """Whatever can talk is offered beside the agent; what cannot talk is not."""
    page = visitor.enter()
    names = page.get_by_test_id("model").locator("option")

    expect(names.first).to_have_text("Agent")
    expect(names.filter(has_text="report")).to_have_count(0)
