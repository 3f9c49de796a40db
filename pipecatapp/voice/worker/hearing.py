"""Speech to text, by the service `speech-stt`."""

import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import httpx2
from pipecat.frames.frames import Frame, TranscriptionFrame, TTSSpeakFrame
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import SegmentedSTTService, STTService
from pipecat.transcriptions.language import Language
from pipecat.utils.time import time_now_iso8601

from pipecatapp.voice.messages import CANNOT_HEAR, HEARD_RATE
from pipecatapp.voice.worker.line import Line

SLOWEST: Final = 4.5
"""Seconds after which the turn is decided without a transcript that is still on its way."""


class Ears(SegmentedSTTService):
    """Sends each segment of speech as a WAV when the voice detector reports its end."""

    def __init__(self, http: httpx2.AsyncClient, url: str, line: Line, stop_secs: float) -> None:
        super().__init__(
            sample_rate=HEARD_RATE,
            ttfs_p99_latency=SLOWEST,
            settings=STTSettings(model="speech-stt", language=Language.EN),
        )
        self._http, self._url, self._line, self._stop_secs = http, url, line, stop_secs

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        self._line.mark("silence", earlier=self._stop_secs)
        self._line.mark("stopped")
        began = time.monotonic()
        try:
            text = await self._heard(audio)
        except (httpx2.HTTPError, ValueError) as error:
            await self._line.tell(type="trouble", part="hearing", reason=repr(error))
            await self.push_frame(TTSSpeakFrame(CANNOT_HEAR))
            return
        self._line.mark("heard")
        if text:
            seconds = time.monotonic() - began
            await self._line.tell(type="heard", text=text, seconds=round(seconds, 3))
        # Noise yields an empty transcript; a space lets the aggregator end the turn.
        yield TranscriptionFrame(text or " ", self._user_id, time_now_iso8601(), Language.EN)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        """A transcript ends a turn only if nobody has spoken since: a slow engine may return that
        of the first half while the second half is spoken.
        """
        more = self._user_speaking or not self._segment_queue.empty()
        if more and isinstance(frame, TranscriptionFrame):
            await STTService.push_frame(self, frame, direction)
        else:
            await super().push_frame(frame, direction)

    async def _heard(self, wav: bytes) -> str:
        answer = await self._http.post(
            f"{self._url}/v1/audio/transcriptions",
            files={"file": ("speech.wav", wav, "audio/wav")},
            data={"model": "speech-stt"},
        )
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        return str(body["text"])
