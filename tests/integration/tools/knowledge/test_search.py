"""The tool `rag.search` on real documents with real embeddings."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.knowledge.knowledge import Knowledge
from pipecatapp.workflow import ToolFailed
from tests.integration.tools.knowledge.conftest import context


async def test_passages_have_citations_and_are_delimited_as_data(knowledge: Knowledge) -> None:
    """A document may hold instructions of a stranger; the prompt shows where it begins and ends."""
    given = {"query": "How do I erase all settings?", "limit": 1}
    found = await TOOLS["rag.search"].check(context(knowledge), given)
    [passage] = found["passages"]
    first, mark, *lines, last = found["text"].splitlines()

    assert (found["found"], found["note"]) == (True, "")
    assert passage["citation"] == "manuals/router.md#Factory reset"
    assert "not an instruction" in first
    assert (mark[1:], lines[0]) == (last[2:], "[manuals/router.md#Factory reset]")


async def test_budget_and_sources_limit_the_passages(knowledge: Knowledge) -> None:
    """A prompt has little room, and a question is about one manual."""
    every = {"query": "router heating soup shoes", "limit": 20, "everything": True}
    search = TOOLS["rag.search"]
    whole = await search.check(context(knowledge), every)
    small = await search.check(context(knowledge), {**every, "budget": 100})
    rules = await search.check(context(knowledge), {**every, "sources": ["rules"]})

    assert len(small["passages"]) + small["left_out"] == len(whole["passages"])
    assert small["left_out"] > 0
    assert {one["source"] for one in rules["passages"]} == {"rules"} == {*rules["sources"]}


async def test_result_says_that_no_document_fits(knowledge: Knowledge) -> None:
    """A model that is given the nearest passages answers from them, whatever they are about."""
    given = {"query": "Who won the world cup in 1990?"}
    found = await TOOLS["rag.search"].check(context(knowledge), given)

    assert (found["found"], found["passages"], found["text"]) == (False, [], "")
    assert "No document" in found["note"]


@pytest.mark.parametrize("query", ['"', "* OR NEAR(", "\0", "😀", "a" * 2000, "' --", "%"])
async def test_hostile_query_is_only_text(knowledge: Knowledge, query: str) -> None:
    """A query of a model reaches a language of queries; no character of it is a command there."""
    found = await TOOLS["rag.search"].check(context(knowledge), {"query": query})

    assert found["sources"] == ["manuals", "rules"]


async def test_unknown_source_is_named_with_the_known_ones(knowledge: Knowledge) -> None:
    """A model, or a person, can correct the name."""
    given = {"query": "x", "sources": ["manual"]}
    with pytest.raises(ToolFailed, match=r"no source 'manual'\. Known sources: manuals, rules"):
        await TOOLS["rag.search"].check(context(knowledge), given)
