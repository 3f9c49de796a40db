"""The tool `conversation.recall`: what of a conversation a model is told again."""

from collections.abc import Sequence

from pipecatapp.library.runs.conversations import Turn
from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.conversation import Conversations
from pipecatapp.workflow import Context

RECALL = TOOLS["conversation.recall"]


TURNS = [Turn(run=str(n), at="", user=f"ask {n}", assistant=f"say {n}") for n in range(3)]
"""Ten characters each."""


def turns(id: str, limit: int) -> Sequence[Turn]:
    return TURNS[-limit:] if id == "known" else []


def context() -> Context:
    return Context(services={Conversations: Conversations(turns)})


async def test_recall_gives_the_turns_as_chat_messages_oldest_first() -> None:
    """A model reads them as what was said before."""
    told = await RECALL.check(context(), {"conversation": "known"})

    assert [(m["role"], m["content"]) for m in told["messages"][:2]] == [
        ("user", "ask 0"),
        ("assistant", "say 0"),
    ]
    assert (told["turns"], told["left_out"]) == (3, 0)


async def test_recall_keeps_the_latest_whole_turns_within_the_budget() -> None:
    """The small model has a small context; half a turn would confuse it."""
    told = await RECALL.check(context(), {"conversation": "known", "budget": 29})

    assert [m["content"] for m in told["messages"]] == ["ask 1", "say 1", "ask 2", "say 2"]
    assert (told["turns"], told["left_out"]) == (2, 1)


async def test_recall_of_no_conversation_is_empty() -> None:
    """A first question has no history."""
    assert (await RECALL.check(Context(), {}))["messages"] == []
    assert (await RECALL.check(context(), {"conversation": "other"}))["turns"] == 0
