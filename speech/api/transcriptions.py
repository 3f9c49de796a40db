"""`POST /v1/audio/transcriptions`: what was said in a file."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from starlette.responses import JSONResponse, PlainTextResponse, Response

from speech.api.answers import Refused, known_caller
from speech.audio import decode
from speech.duty import Ears, Transcript

router = APIRouter(dependencies=[Depends(known_caller)])

AnswerFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]


@router.post("/v1/audio/transcriptions")
async def transcribe(
    request: Request,
    file: Annotated[UploadFile, File()],
    model: Annotated[str, Form()],
    language: Annotated[str | None, Form()] = None,
    response_format: Annotated[AnswerFormat, Form()] = "json",
) -> Response:
    """Other fields of OpenAI's API (prompt, temperature, stream) are for other engines than ours
    and, as that API has it for such models, without effect.
    """
    ears: Ears = request.app.state.ears
    if language and language.lower().split("-")[0] not in (ears.engine.language, "english"):
        raise Refused(
            400, "unsupported_language",
            f"{ears.engine.name} hears {ears.engine.language!r} only.", param="language",
        )  # fmt: skip
    longest = request.app.state.settings.max_audio_seconds
    with ears.metrics.counted():
        samples = await asyncio.to_thread(decode, await file.read(), longest_seconds=longest)
        transcript = await ears.hear(samples)
    return answer(transcript, response_format)


def answer(transcript: Transcript, wanted: AnswerFormat) -> Response:
    """The transcript as the caller wants it."""
    match wanted:
        case "json":
            usage = {"type": "duration", "seconds": round(transcript.seconds)}
            return JSONResponse({"text": transcript.text, "usage": usage})
        case "verbose_json":
            return JSONResponse(verbose(transcript))
        case "text":
            return PlainTextResponse(f"{transcript.text}\n")
        case "srt":
            return PlainTextResponse(subtitles(transcript, ","))
        case "vtt":
            return PlainTextResponse("WEBVTT\n\n" + subtitles(transcript, "."))


def verbose(transcript: Transcript) -> dict[str, Any]:
    """OpenAI's `verbose_json`: with the parts and their times."""
    segments = [
        {"id": number, "start": round(part.start, 2), "end": round(part.end, 2), "text": part.text}
        for number, part in enumerate(transcript.segments)
    ]
    return {
        "task": "transcribe",
        "language": transcript.language,
        "duration": round(transcript.seconds, 2),
        "text": transcript.text,
        "segments": segments,
    }


def subtitles(transcript: Transcript, point: str) -> str:
    """Numbered parts with their times, as SubRip and WebVTT have them."""
    return "".join(
        f"{number}\n{clock(part.start, point)} --> {clock(part.end, point)}\n{part.text}\n\n"
        for number, part in enumerate(transcript.segments, 1)
    )


def clock(seconds: float, point: str) -> str:
    """`3661.5` is `01:01:01,500`."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}{point}{milliseconds:03}"
