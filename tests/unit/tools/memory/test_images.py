"""What `conversation.recall` gives of files and images of earlier turns."""

from collections.abc import Sequence

import pytest

from pipecatapp.records.attachments import Attachment, attachments_of, block, parts_of
from pipecatapp.records.conversations import Turn
from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.conversation import IMAGE, Conversations
from pipecatapp.tools.memory.tokens import SHORTENED
from pipecatapp.workflow import Context, ModelFacts, ModelNeeds
from pipecatapp.workflow.planning import Json

RECALL = TOOLS["conversation.recall"]
URL = "data:image/png;base64,AAAA"
PHOTO = Attachment(name="photo.png", image=URL)
NOTES = Attachment(name="notes.md", text="Tea at four.")


class Facts(ModelFacts):
    """`eyes` sees; each model holds so many tokens."""

    def __init__(self, size: int) -> None:
        self._size = size

    def fitting(self, model: str, needs: ModelNeeds) -> tuple[list[str], str]:
        return ([model], "") if model == "eyes" or not needs.able else ([], "does not see")

    def context(self, model: str) -> int | None:
        return self._size


async def recalled(model: str, attachments: Sequence[Attachment], *, size: int = 8192) -> Json:
    """The history of one turn with these attachments, for a model."""
    parts = parts_of("What is this?", attachments)
    turn = Turn(run="1", at="", user="What is this?", assistant="A hat.", parts=parts)
    services = {Conversations: Conversations(lambda *_: [turn]), ModelFacts: Facts(size)}
    context = Context(run="9", services=services, request="and?")
    return await RECALL.check(context, {"conversation": "c", "model": model})


async def test_model_that_sees_gets_the_images_of_earlier_turns() -> None:
    """The picture is what the next question is about."""
    told = await recalled("eyes", [PHOTO])

    assert told["messages"][0]["content"][2] == {"type": "image_url", "image_url": {"url": URL}}


async def test_model_that_does_not_see_gets_the_name_of_an_image_and_the_text_of_a_file() -> None:
    """Most servers refuse a whole request for one image that their model cannot read."""
    told = await recalled("blind", [PHOTO, NOTES])

    content = told["messages"][0]["content"]
    assert content == f"What is this?\n\nImage `photo.png`:\n\n{block('notes.md', 'Tea at four.')}"


async def test_image_counts_as_tokens_and_is_left_out_where_it_does_not_fit() -> None:
    """A turn that is shortened keeps its words, and the name of its image."""
    told = await recalled("eyes", [PHOTO], size=IMAGE)
    long = await recalled("blind", [Attachment(name="l.txt", text="tea " * 5000)])

    assert told["messages"][0]["content"] == "What is this?\n\nImage `photo.png`:"
    assert told["shortened"]
    assert SHORTENED in long["messages"][0]["content"]


@pytest.mark.parametrize(
    "text", ["plain", "```\ncode\n```", "````\n```\n````", "", "a\n`````", "`x`"]
)
def test_attachments_are_found_again_in_the_message_made_of_them(text: str) -> None:
    """The page shows a file as it was attached, whatever fences it has."""
    given = [Attachment(name="a `b`\n.md", text=text), PHOTO, NOTES]
    found = attachments_of(parts_of("Hello", given))

    assert [(one.name, one.text, one.image) for one in found] == [
        ("a 'b' .md", text, None),
        ("photo.png", None, URL),
        ("notes.md", "Tea at four.", None),
    ]


def test_message_of_a_person_is_no_attachment() -> None:
    """Somebody may write about files as the prompt does."""
    assert attachments_of(parts_of("File `a`: is it there?\nImage `b`:", [NOTES])) == [NOTES]
