"""The tool `conversation.recall`: what of a conversation a model is told again."""

from collections.abc import Sequence

import pytest

from pipecatapp.records.conversations import Turn
from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.conversation import Conversations
from pipecatapp.tools.memory.tokens import SHORTENED, estimated, shortened
from pipecatapp.workflow import Context, ModelFacts

RECALL = TOOLS["conversation.recall"]

LONG = "The stove is warm. " * 400
TURNS = [Turn(run=str(n), at="", user=f"ask {n}", assistant=f"say {n}") for n in range(3)]
BEFORE_LONG = [*TURNS, Turn(run="3", at="", user="ask 3", assistant=LONG)]


class Facts(ModelFacts):
    """Knows one small model."""

    def context(self, model: str) -> int | None:
        return 512 if model == "small" else None


def context(past: Sequence[Turn] = TURNS) -> Context:
    def turns(id: str, limit: int, _run: str) -> Sequence[Turn]:
        return past[-limit:] if id == "known" else []

    services = {Conversations: Conversations(turns), ModelFacts: Facts()}
    return Context(run="9", services=services, request="and now?")


async def test_recall_gives_the_turns_as_chat_messages_oldest_first() -> None:
    """A model reads them as what was said before."""
    told = await RECALL.check(context(), {"conversation": "known"})

    assert [(m["role"], m["content"]) for m in told["messages"][:2]] == [
        ("user", "ask 0"),
        ("assistant", "say 0"),
    ]
    assert (told["turns"], told["left_out"], told["shortened"], told["since"]) == (3, 0, False, "0")


async def test_turn_that_does_not_fit_is_shortened_and_not_dropped() -> None:
    """After one long answer the model still knows what was asked, and how the answer begins and
    ends."""
    told = await RECALL.check(context(BEFORE_LONG), {"conversation": "known", "model": "small"})

    asked, answered = (m["content"] for m in told["messages"])
    assert asked == "ask 3"
    assert answered.startswith("The stove")
    assert SHORTENED in answered
    assert answered.endswith("warm. ")
    assert 100 < estimated(answered) < 256
    assert (told["turns"], told["left_out"], told["shortened"], told["since"]) == (1, 3, True, "9")


async def test_larger_context_keeps_more() -> None:
    """The limit is the model's own: what a large one can read is not taken from it."""
    told = await RECALL.check(context(BEFORE_LONG[:3] * 30), {"conversation": "known"})
    small = await RECALL.check(
        context(BEFORE_LONG[:3] * 30), {"conversation": "known", "model": "small"}
    )

    assert told["left_out"] == 0
    assert 0 < small["turns"] < told["turns"]
    assert sum(estimated(m["content"]) for m in small["messages"]) < 256


@pytest.mark.parametrize("tokens", [0, 3])
async def test_budget_of_the_document_limits_the_messages(tokens: int) -> None:
    """Who writes a document may want less than the model could read."""
    given = {"conversation": "known", "budget": tokens}

    assert (await RECALL.check(context(), given))["messages"] == []


async def test_recall_of_no_conversation_is_empty() -> None:
    """A first question has no history."""
    assert (await RECALL.check(Context(), {}))["messages"] == []
    assert (await RECALL.check(context(), {"conversation": "other"}))["turns"] == 0


async def test_turns_beyond_those_looked_at_count_as_left_out() -> None:
    """The page says that there is more than the model knows."""
    told = await RECALL.check(context(), {"conversation": "known", "turns": 2})

    assert (told["turns"], told["left_out"], told["since"]) == (2, 1, "1")


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("3141592653", 10),
        ("Die Wärmepumpe verbraucht ungefähr siebenhundert Kilowattstunden im Monat.", 26),
        ("Быстрая лиса прыгает", 11),
        ("快速的狐狸跳过懒狗", 7),
        ("{'a': [1, 2], 'b': {}}", 14),
    ],
)
def test_estimate_is_not_below_what_a_tokenizer_counts(text: str, counted: int) -> None:
    """`counted` is from the vocabulary of Qwen 2. A request that is too long is refused, so the
    estimate may only be too high, and not by more than a factor of two."""
    assert counted <= estimated(text) <= 2 * counted


def test_count_of_the_model_replaces_the_estimate_if_it_can_be_true() -> None:
    """A model reports what it wrote; a count of something else must not hide a long text."""
    assert estimated(LONG, counted=1600) == 1600
    assert estimated(LONG, counted=5) == estimated(LONG)
    assert estimated("short", counted=900) == estimated("short")


@pytest.mark.parametrize("room", [20, 64, 300])
def test_shortened_text_fits(room: int) -> None:
    """What is cut to fit must fit."""
    assert estimated(shortened(LONG, room)) <= room
