"""A text, spoken into a file of the workspace."""

import base64
from pathlib import PurePath
from typing import Annotated

from pydantic import Field

from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError
from pipecatapp.tools.files.write import Written
from pipecatapp.tools.model.behalf import behalf_of
from pipecatapp.workflow import Context, ToolFailed, tool

KINDS = ("wav", "mp3", "opus", "flac")


@tool("speech.say", effect="workspace", version=1)
async def say(
    ctx: Context,
    text: Annotated[str, Field(description="The text to speak.", min_length=1, max_length=4096)],
    path: Annotated[
        str, Field(description="In the workspace; ends in .wav, .mp3, .opus or .flac.")
    ],
    voice: Annotated[str, Field(description="A voice; `default` is the configured one.")] = (
        "default"
    ),
) -> Written:
    """Speak a text into a sound file of the workspace."""
    kind = PurePath(path).suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise ToolFailed(
            f"{path!r} is not a sound file: its name must end in .{', .'.join(KINDS)}."
        )
    client = ctx.service(ModelClient)
    try:
        sound = await client.speech(text, voice=voice, kind=kind, headers=behalf_of(ctx))
    except ModelError as error:
        raise ToolFailed(f"The text cannot be spoken: {error}") from error
    written = {"path": path, "text": base64.b64encode(sound).decode("ascii"), "encoding": "base64"}
    return Written.model_validate(await ctx.call("file.write", written, at="write"))
