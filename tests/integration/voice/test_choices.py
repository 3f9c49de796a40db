"""What a person chooses before and during a conversation, and what is kept of it."""

import asyncio
import json

from websockets.asyncio.client import connect

from tests.integration.local.conftest import wait_for
from tests.integration.voice.conftest import Home

SECRET = "My name is Rumpelstiltskin."


async def test_model_and_voice_are_chosen_from_what_there_is(lasting_home: Home) -> None:
    """A list of choices that do not work, or a choice that does nothing, is worse than none."""
    with lasting_home.house.client() as client:
        offered = client.get("/api/voice").json()
    lasting_home.house.model.when(lambda request: True).say("Yes.")
    async with lasting_home.caller(
        model="expert/scripted", voice=offered["voices"][0]["id"]
    ) as caller:
        for chosen in ("expert/scripted", "agent", "workflow/nobody"):
            before = len(caller.told)
            await caller.socket.send(json.dumps({"type": "choose", "model": chosen}))
            await caller.socket.send(json.dumps({"type": "text", "text": "Are you there?"}))
            wanted = "trouble" if chosen == "workflow/nobody" else "answered"
            told = await caller.hears(wanted, after=before)
    asked = [request.body["model"] for request in lasting_home.house.model.requests]

    assert [model["id"] for model in offered["models"]][:2] == ["agent", "expert/scripted"]
    assert offered["trouble"] is None
    assert offered["kept"] is True
    assert asked[:2] == ["scripted", "auto"]
    assert told["part"] == "model"


async def test_offer_that_is_none_is_told_and_the_page_talks_without(lasting_home: Home) -> None:
    """Whatever a browser makes up: the conversation is possible by the socket."""
    headers = {"authorization": f"Bearer {lasting_home.house.key}"}
    async with connect(lasting_home.url, additional_headers=headers) as socket:
        await socket.send(json.dumps({"type": "hello", "offer": "v=0\r\nnonsense"}))
        told = [json.loads(await socket.recv())["type"] for _ in range(2)]

    assert told == ["waking", "unanswered"]


async def test_what_was_said_is_gone_when_nothing_is_to_be_kept(lasting_home: Home) -> None:
    """A microphone in the house is trusted only with a switch like this; the conversation itself
    still knows what was said in it."""
    lasting_home.house.model.when(lambda request: True).say("Yes.")
    with lasting_home.another({"voice_transcripts": False}) as forgetful:
        async with forgetful.caller() as caller, caller.quiet():
            for text in (SECRET, "What is my name?"):
                before = len(caller.told)
                await caller.socket.send(json.dumps({"type": "text", "text": text}))
                await caller.hears("answered", after=before)
        await forgetful.empty()
        said = json.dumps(lasting_home.house.model.requests[-1].body)
        with forgetful.house.client() as client:
            kept = client.get("/api/voice").json()["kept"]
            # The place of a session is free before what was said in it is removed.
            await asyncio.to_thread(
                wait_for,
                lambda: not client.get("/api/conversations").json()["conversations"],
                "the conversation has been removed",
            )
            runs = client.get("/api/runs").json()["runs"]

    assert "Rumpelstiltskin" in said
    assert (runs, kept) == ([], False)
