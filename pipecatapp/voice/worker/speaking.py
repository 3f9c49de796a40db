"""Text to speech, by the service `speech-tts`."""

from collections.abc import AsyncGenerator, AsyncIterator

import httpx2
from pipecat.frames.frames import Frame
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.transcriptions.language import Language

from pipecatapp.voice.messages import SPOKEN_RATE
from pipecatapp.voice.worker.line import Line


class Mouth(TTSService):
    """Each piece of the answer is a request; its sound is sent on while it is made."""

    def __init__(self, http: httpx2.AsyncClient, url: str, line: Line, rate: int) -> None:
        super().__init__(
            sample_rate=rate,
            push_start_frame=True,
            push_stop_frames=True,
            # A voice that is away for three sentences is tried again with the fourth.
            max_consecutive_zero_audio_contexts=0,
            settings=TTSSettings(model="speech-tts", voice="default", language=Language.EN),
        )
        self._http, self._url, self._line = http, url, line

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        asked = {"input": text, "voice": self._line.voice, "response_format": "pcm"}
        try:
            async with self._http.stream(
                "POST", f"{self._url}/v1/audio/speech", json=asked
            ) as answer:
                answer.raise_for_status()
                async for frame in self._stream_audio_frames_from_iterator(
                    self._marked(answer.aiter_bytes()),
                    in_sample_rate=SPOKEN_RATE,
                    context_id=context_id,
                ):
                    yield frame
        except httpx2.HTTPError as error:
            await self._line.tell(type="trouble", part="speaking", reason=repr(error))

    async def _marked(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            self._line.mark("sound")
            yield piece
