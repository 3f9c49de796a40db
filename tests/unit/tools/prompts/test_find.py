"""The tool `prompt.find` on the shipped prompts."""

from typing import Any

import pytest

from pipecatapp.application.documents.files import Library
from pipecatapp.application.library.searching import find_prompts
from pipecatapp.tools import TOOLS
from pipecatapp.tools.prompts.find import Prompts
from pipecatapp.workflow import Context


async def find(**given: Any) -> Any:
    shipped = Library.shipped().prompts.values()
    service = Prompts(lambda words, tags: find_prompts(shipped, words, tags))
    return await TOOLS["prompt.find"].check(Context(services={Prompts: service}), given)


@pytest.mark.proves("003-22")
async def test_prompt_with_words_of_the_task_comes_first_with_its_tags() -> None:
    """The tags are what a node needs to use it."""
    found = await find(text="Plan a small program", limit=2)

    first = found["prompts"][0]
    assert (first["id"], first["tags"]) == ("plan-app", ["plan-app"])
    assert len(found["prompts"]) == 2
    assert found["text"].startswith("* prompt: [plan-app]: You plan a small program")
    assert max(map(len, found["text"].splitlines())) < 400


async def test_tags_restrict_the_prompts_and_nothing_like_it_is_nothing() -> None:
    """A prompt applies if all of its tags are named."""
    tagged = await find(tags=["write", "docs"])

    assert [one["id"] for one in tagged["prompts"]] == ["write-docs"]
    assert await find(text="xyzzy") == {"prompts": [], "text": ""}
