"""`POST /v1/audio/transcriptions`: transcribe a file."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from hearth.models.catalogue import Catalogue
from hearth.service.http_errors import Refused
from speech.api.answers import known_caller
from speech.api.events import EVENTS, event, failure
from speech.api.recordings import decoded
from speech.audio import Samples
from speech.duty import Ears, Transcript
from speech.engines.hearing import Segment
from speech.errors import SpeechError
from speech.languages import known, knows, remedy
from speech.settings import Settings

router = APIRouter(dependencies=[Depends(known_caller)])

AnswerFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]
TIMES: Final = "timestamp_granularities[]"
SURENESS: Final = ("avg_logprob", "no_speech_prob", "compression_ratio")


@router.get("/v1/audio/languages")
async def list_languages(request: Request) -> dict[str, list[dict[str, str]]]:
    """The languages that a request may name; OpenAI's API has no such list."""
    ears: Ears = request.app.state.ears
    return {"languages": [{"id": language} for language in sorted(known(ears.engine.language))]}


@router.post("/v1/audio/transcriptions")
async def transcribe(
    request: Request,
    file: Annotated[UploadFile, File()],
    model: Annotated[str, Form()],
    *,
    language: Annotated[str | None, Form()] = None,
    response_format: Annotated[AnswerFormat, Form()] = "json",
    stream: Annotated[bool, Form()] = False,
    times: Annotated[list[Literal["segment", "word"]] | None, Form(alias=TIMES)] = None,
) -> Response:
    """Other fields of OpenAI's API (prompt, temperature, chunking_strategy) are for other engines
    than ours and, as that API has it for such models, without effect.
    """
    settings: Settings = request.app.state.settings
    ears: Ears = request.app.state.ears
    _can(ears, settings, language=language, times=times or [])
    if stream and response_format not in ("json", "text"):
        raise Refused(
            400, "unsupported_format",
            f"A stream has no {response_format}: ask for json.", param="response_format",
        )  # fmt: skip
    samples = await asyncio.to_thread(
        decoded, await file.read(), longest_seconds=settings.max_audio_seconds
    )
    if stream:
        heard = _counted(ears, samples, language)
        first = await anext(heard, None)
        return StreamingResponse(_told(ears, samples, first, heard), media_type=EVENTS)
    with ears.metrics.counted():
        transcript = await ears.hear(samples, language)
    return answer(transcript, response_format)


def _can(ears: Ears, settings: Settings, *, language: str | None, times: Sequence[str]) -> None:
    """Raises `Refused` for what the engine cannot do."""
    if language and not knows(ears.engine.language, language):
        models = list(Catalogue.load(settings.catalogue).speech.values())
        raise Refused(
            400, "unsupported_language",
            f"{ears.engine.name} supports only {ears.engine.language!r}."
            f" {remedy(language, 'stt', models)}", param="language",
        )  # fmt: skip
    if "word" in times:
        raise Refused(
            400, "unsupported_granularity",
            f"{ears.engine.name} returns the times of segments only, not of words.", param=TIMES,
        )  # fmt: skip


async def _counted(ears: Ears, samples: Samples, language: str | None) -> AsyncGenerator[Segment]:
    with ears.metrics.counted():
        async with aclosing(ears.listen(samples, language)) as parts:
            async for part in parts:
                yield part


async def _told(
    ears: Ears, samples: Samples, first: Segment | None, rest: AsyncGenerator[Segment]
) -> AsyncIterator[str]:
    """Yield OpenAI's events: each part, then the whole text. A late error is an event, too."""
    found: list[Segment] = []
    async with aclosing(rest):
        try:
            part = first
            while part is not None:
                delta = part.text if not found else f" {part.text}"
                found.append(part)
                yield event({"type": "transcript.text.delta", "delta": delta})
                part = await anext(rest, None)
        except SpeechError as error:
            yield failure(error)
            return
    whole = ears.transcript(found, samples, None)
    yield event({"type": "transcript.text.done", "text": whole.text, "usage": usage(whole)})


def answer(transcript: Transcript, wanted: AnswerFormat) -> Response:
    """The transcript as the caller wants it."""
    match wanted:
        case "json":
            return JSONResponse({"text": transcript.text, "usage": usage(transcript)})
        case "verbose_json":
            return JSONResponse(verbose(transcript))
        case "text":
            return PlainTextResponse(f"{transcript.text}\n")
        case "srt":
            return PlainTextResponse(subtitles(transcript, ","))
        case "vtt":
            return PlainTextResponse("WEBVTT\n\n" + subtitles(transcript, "."))


def usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(transcript.seconds)}


def verbose(transcript: Transcript) -> dict[str, Any]:
    """OpenAI's `verbose_json`: with the parts, their times, and how sure the engine is of them."""
    return {
        "task": "transcribe",
        "language": transcript.language,
        "duration": round(transcript.seconds, 2),
        "text": transcript.text,
        "segments": [_segment(number, part) for number, part in enumerate(transcript.segments)],
        "usage": usage(transcript),
    }


def _segment(number: int, part: Segment) -> dict[str, Any]:
    """Return a segment in OpenAI's form. Values that the engine does not report are omitted."""
    told = asdict(part)
    sure = {name: told[name] for name in SURENESS if told[name] is not None}
    times = {"start": round(part.start, 2), "end": round(part.end, 2)}
    return {"id": number, "seek": 0, **times, "text": part.text, "temperature": 0.0, **sure}


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
