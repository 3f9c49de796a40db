"""What a model is told of a conversation, by its own context; on a real agent service."""

from hearth.openai_api.scripts import Rule
from pipecatapp.tools.memory.tokens import SHORTENED, estimated
from tests.integration.agent.conftest import House
from tests.integration.agent.conversations.test_turns import Json, add, ended

LONG = "The stove is warm and the kettle sings. " * 300


def page(house: House, name: str) -> Json:
    with house.client() as client:
        found: Json = client.get(f"/api/conversations/{name}").json()
    return found


def talk(house: House, *texts: str) -> None:
    """Say something in turn in one conversation."""
    with house.client() as client:
        for text in texts:
            ended(client, add(client, "c-1", text))


def told(house: House) -> list[str]:
    """What the model was sent last, without the instructions."""
    messages = house.model.requests[-1].body["messages"]
    return [m["content"] for m in messages if m["role"] != "system"]


def test_long_answer_does_not_erase_what_came_before(empty_house: House) -> None:
    """A model with room for it reads the whole conversation, and the page draws no line."""
    empty_house.model.expert["context"] = 32_768
    empty_house.model.when("story").say(LONG)
    with empty_house.running():
        talk(empty_house, "My name is Ada.", "Tell me a story", "What is my name?")
        shown = page(empty_house, "c-1")

    assert told(empty_house) == [
        "My name is Ada.", "My name is Ada.", "Tell me a story", LONG, "What is my name?",
    ]  # fmt: skip
    assert shown["unseen"] is None


def test_small_context_gets_the_end_of_the_conversation_and_the_page_is_told(
    empty_house: House,
) -> None:
    """A request that is too long would be refused; what is left out is never left out silently."""
    empty_house.model.expert["context"] = 2048
    empty_house.model.when("story").say(LONG)
    with empty_house.running():
        talk(empty_house, "My name is Ada.", "Tell me a story", "And then?")
        shown = page(empty_house, "c-1")

    asked, answered, now = told(empty_house)
    assert (asked, now) == ("Tell me a story", "And then?")
    assert answered.startswith("The stove is warm")
    assert answered.endswith("the kettle sings. ")
    assert SHORTENED in answered
    assert 700 < estimated(answered) < 1024
    assert shown["unseen"] == {"before": shown["turns"][2]["run"], "partly": True}


def test_chosen_model_is_the_one_whose_context_counts(empty_house: House) -> None:
    """Two experts differ by a factor of sixteen; the history fits the one that is asked."""
    small = {**empty_house.model.expert, "name": "small", "context": 2048}
    large = {**empty_house.model.expert, "name": "large", "context": 32_768}
    empty_house.model.experts = [small, large]
    rule: Rule = empty_house.model.when("story")
    rule.say(LONG)
    with empty_house.running():
        talk(empty_house, "Tell me a story", "And then?")
    by_auto = told(empty_house)[1]
    empty_house.more["model_roles"] = {"default": "small"}
    with empty_house.running():
        talk(empty_house, "And now?")
    by_small = told(empty_house)

    assert by_auto == LONG
    assert SHORTENED in by_small[1]
