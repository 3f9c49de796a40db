"""The tool `speech.say`, without a run around it."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.speech.conftest import Audio

SAY = TOOLS["speech.say"]


async def test_file_that_is_no_sound_is_refused_before_anybody_speaks(
    ctx: Context, audio: Audio
) -> None:
    """The ending says what is made."""
    with pytest.raises(ToolFailed, match=r"not a sound file: its name must end in \.wav, \.mp3"):
        await SAY.check(ctx, {"text": "Hello.", "path": "hello.txt"})
    assert audio.asked == []


async def test_refusal_of_the_service_is_the_tools(ctx: Context, audio: Audio) -> None:
    """A model reads which voices there are."""
    audio.refusal = "There is no voice 'bob' here."

    with pytest.raises(ToolFailed, match="no voice 'bob'"):
        await SAY.check(ctx, {"text": "Hello.", "path": "hello.mp3", "voice": "bob"})
    assert audio.asked == [
        {"model": "tts-1", "input": "Hello.", "voice": "bob", "response_format": "mp3"}
    ]
