"""The words of a recording in the workspace."""

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError
from pipecatapp.tools.files.content import content_of
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.model.behalf import behalf_of
from pipecatapp.workflow import Context, ToolFailed, tool

LARGEST = 25 * 1024 * 1024
"""Maximum bytes of a recording: the limit of OpenAI's audio API."""


class Heard(BaseModel):
    """The transcript."""

    text: str = Field(description="The transcript; empty if nobody spoke.")


@tool("speech.hear", effect="read", version=1, workspace=True)
async def hear(
    ctx: Context,
    path: Annotated[str, Field(description="WAV, MP3, Ogg, FLAC, MP4 or WebM.", min_length=1)],
    language: Annotated[
        str | None, Field(description="Its code, such as `de`; null is the set one.")
    ] = None,
) -> Heard:
    """Transcribe a recording of the workspace."""
    root, client = workspace(ctx), ctx.service(ModelClient)
    sound = await asyncio.to_thread(
        content_of, root, path, largest=LARGEST, advice="cut it into parts"
    )
    try:
        text = await client.transcription(sound, language=language, headers=behalf_of(ctx))
    except ModelError as error:
        raise ToolFailed(f"{path!r} cannot be transcribed: {error}") from error
    return Heard(text=text)
