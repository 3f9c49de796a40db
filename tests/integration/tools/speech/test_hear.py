"""The tool `speech.hear` on real files."""

from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.speech.hear import LARGEST
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.speech.conftest import SOUND, Audio

HEAR = TOOLS["speech.hear"]


async def test_recording_of_the_workspace_is_written_down(
    ctx: Context, audio: Audio, tmp_path: Path
) -> None:
    """A note that was spoken becomes a text for the next step."""
    (tmp_path / "note.wav").write_bytes(SOUND)

    told = await HEAR.check(ctx, {"path": "note.wav", "language": "de"})

    assert told == {"text": "It is open."}
    assert audio.asked == [{"model": "whisper-1", "language": "de", "file": SOUND}]


@pytest.mark.parametrize(
    ("path", "why"),
    [("missing.wav", "No such file"), ("../out.wav", "leads out"), ("large.wav", "more than")],
)
async def test_what_cannot_be_heard_is_said(
    ctx: Context, audio: Audio, tmp_path: Path, path: str, why: str
) -> None:
    """Nothing outside of the workspace is sent anywhere, and nothing that nobody takes."""
    with (tmp_path / "large.wav").open("wb") as file:
        file.truncate(LARGEST + 1)

    with pytest.raises(ToolFailed, match=why):
        await HEAR.check(ctx, {"path": path})
    assert audio.asked == []


async def test_refusal_of_the_service_is_the_tools(
    ctx: Context, audio: Audio, tmp_path: Path
) -> None:
    """A model reads it and can try something else."""
    audio.refusal = "moonshine supports only 'en'."
    (tmp_path / "note.wav").write_bytes(SOUND)

    with pytest.raises(ToolFailed, match="supports only 'en'"):
        await HEAR.check(ctx, {"path": "note.wav"})
