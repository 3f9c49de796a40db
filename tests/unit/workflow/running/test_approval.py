"""Approval around the tools of an agent: what a model has read does not act by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.workflow import Engine, WrongAnswer
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Script

READER = """
id: reader
inputs: {text: text}
steps:
  - id: reply
    use: agent
    TIMEOUT
    with: {text: "{{ inputs.text }}", tools: [mail.send, lock.open, text.upper]}
outputs: {text: "{{ reply.answer }}"}
"""
MAIL = [("mail_send", {"line": "the diary"})]
LOCK = [("lock_open", {"line": "front door"})]
ASKED = "reply/turn[1]/approve[0]"


def reader(timeout: str = "about: x") -> str:
    return READER.replace("TIMEOUT", timeout)


async def asked(engine: Engine, run: str, path: str = ASKED) -> None:
    """Return once the run waits for this approval."""
    async with asyncio.timeout(60):
        while path not in engine.questions(run):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.01)


async def start(engine: Engine, **more: Any) -> str:
    return await engine.start("reader", {"text": "Summarise this page."}, **more)


async def test_external_effect_waits_for_a_person_and_happens_once_approved(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A page that says "send the diary" moves the model; it must not move the mail."""
    script = Script(MAIL, MAIL, "Sent.")
    engine: Engine = await open_engine(reader(), services={Script: script})

    run = await start(engine)
    await asked(engine, run)
    question = engine.questions(run)[ASKED]
    before = (engine.run(run).status, (tmp_path / "log").exists())
    await engine.answer(run, ASKED, "yes", by="api")
    result = await engine.wait(run)

    assert before == ("waiting", False)
    assert question.choices == ["yes", "no"]
    assert question.show == {"tool": "mail.send", "input": {"line": "the diary"}}
    assert "mail.send" in question.text
    assert result.outputs == {"text": "Sent."}
    assert (tmp_path / "log").read_text() == "mail the diary\n" * 2, "the second one is not asked"


async def test_declined_call_is_told_to_the_model_and_not_made(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """The run goes on without it; an input that does not fit is not even asked about."""
    script = Script([*MAIL, ("mail_send", {"word": "x"})], "I did not.")
    engine: Engine = await open_engine(reader(), services={Script: script})

    run = await start(engine)
    await asked(engine, run)
    await engine.answer(run, ASKED, "no", by="api")
    result = await engine.wait(run)

    told = [one["content"] for one in script.asked[1]["messages"] if one["role"] == "tool"]
    assert told[0].startswith("Error: A person did not approve the call of mail.send.")
    assert "word" in told[1]
    assert result.outputs == {"text": "I did not."}
    assert not (tmp_path / "log").exists()


async def test_approval_is_remembered_in_its_conversation_only(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A person is not asked the same thing all evening, and nobody else's talk profits from it."""
    script = Script(MAIL, "1", MAIL, "2", MAIL, "3")
    engine: Engine = await open_engine(reader(), services={Script: script})

    first = await start(engine, conversation="c-1")
    await asked(engine, first)
    await engine.answer(first, ASKED, "yes", by="api")
    await engine.wait(first)
    again = await engine.wait(await start(engine, conversation="c-1"))
    other = await start(engine, conversation="c-2")
    await asked(engine, other)
    await engine.cancel(other)

    assert again.outputs == {"text": "2"}
    assert (tmp_path / "log").read_text() == "mail the diary\n" * 2


async def test_lock_is_asked_about_each_time_and_not_answered_by_voice(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A voice at the window, or in the television, opens no door."""
    script = Script(LOCK, LOCK, "Open.")
    engine: Engine = await open_engine(reader(), services={Script: script})

    run = await start(engine, conversation="c-1")
    await asked(engine, run)
    with pytest.raises(WrongAnswer, match="not answered by voice"):
        await engine.answer(run, ASKED, "yes", by="voice")
    await engine.answer(run, ASKED, "yes", by="api")
    await asked(engine, run, "reply/turn[2]/approve[0]")
    await engine.answer(run, "reply/turn[2]/approve[0]", "no", by="api")
    await engine.wait(run)

    assert (tmp_path / "log").read_text() == "open front door\n"


async def test_run_without_a_person_declines_and_presets_approve(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A script that answers nothing sends nothing; one that names its answer has decided."""
    script = Script(MAIL, "I could not.", MAIL, "Sent.")
    engine: Engine = await open_engine(reader(), services={Script: script})

    alone = await engine.wait(await start(engine, interactive=False))
    log = (tmp_path / "log").exists()
    preset = await start(engine, interactive=False, answers={"approve": "yes"})
    decided = await engine.wait(preset)

    assert (alone.outputs, log) == ({"text": "I could not."}, False)
    assert "Nobody can answer" in script.asked[1]["messages"][-1]["content"]
    assert decided.outputs == {"text": "Sent."}
    assert (tmp_path / "log").read_text() == "mail the diary\n"


async def test_time_of_a_node_stands_still_while_a_person_decides(
    open_engine: OpenEngine,
) -> None:
    """A timeout is for models that hang; a person may decide tomorrow."""
    script = Script(MAIL, "Sent.")
    engine: Engine = await open_engine(reader("timeout: 2"), services={Script: script})

    run = await start(engine)
    await asked(engine, run)
    await asyncio.sleep(2.5)  # longer than the timeout
    await engine.answer(run, ASKED, "yes", by="api")

    assert (await engine.wait(run)).outputs == {"text": "Sent."}


async def test_approval_outlives_a_restart_and_the_call_is_made_once(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A run that nobody watches waits for days, and the process ends meanwhile."""
    script = Script(MAIL, "Sent.")
    engine: Engine = await open_engine(reader(), services={Script: script})
    run = await start(engine)
    await asked(engine, run)
    await engine.__aexit__()

    again: Engine = await open_engine(reader(), services={Script: script})
    assert await again.resume_unfinished() == [run]
    await asked(again, run)
    await again.answer(run, ASKED, "yes", by="api")
    result = await again.wait(run)

    assert result.outputs == {"text": "Sent."}
    assert (tmp_path / "log").read_text() == "mail the diary\n"
