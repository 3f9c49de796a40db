"""Audio as bytes and as samples: decode recordings, encode answers in the requested format."""

import io
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from speech.errors import TooLong, UnreadableAudio

Samples = npt.NDArray[np.float32]
"""One channel, from -1 to 1; the rate goes along."""

Format = Literal["mp3", "opus", "flac", "wav", "pcm"]
MEDIA_TYPES: Final[dict[Format, str]] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
HEARING_RATE: Final = 16_000
"""Samples per second of the input of every engine."""

PCM_RATE: Final = 24_000
"""Samples a second of the format `pcm`, as OpenAI's API has it (signed 16 bit, little endian)."""

BLOCK: Final = 1 << 18
"""Samples of each channel that are decoded in one step."""

OPUS_RATE: Final = 48_000
ENDLESS: Final = 0x7FFFFFFF
"""Length in the header of a WAV whose end is not known yet."""

CONTAINERS: Final = {"mp3": ("MP3", None), "opus": ("OGG", "OPUS"), "flac": ("FLAC", "PCM_16")}


def decode(data: bytes, *, longest_seconds: float) -> Samples:
    """Samples at `HEARING_RATE` of a file in any format of libsndfile.

    Raises `UnreadableAudio`, or `TooLong` before anything long is decoded.
    """
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            most = int(longest_seconds * file.samplerate)
            return _heard(file, most, longest_seconds)
    except soundfile.LibsndfileError as error:
        why = error.error_string.rstrip(".")
        raise UnreadableAudio(f"The file cannot be read as audio: {why}.") from error


def _heard(file: soundfile.SoundFile, most: int, longest_seconds: float) -> Samples:
    """Piece by piece: a minute of silence in eight channels is a small file and a large array."""
    rate: int = file.samplerate
    stream = soxr.ResampleStream(rate, HEARING_RATE, 1, dtype="float32")
    pieces, size = [], BLOCK
    while size == BLOCK:
        channels: Samples = file.read(BLOCK, dtype="float32", always_2d=True)
        size, most = len(channels), most - len(channels)
        if most < 0:
            raise TooLong(f"The audio is longer than {longest_seconds:g} s.")
        # A file of floats may contain NaN, which would invalidate the whole transcription.
        mono = np.nan_to_num(np.mean(channels, axis=1), nan=0.0, posinf=1.0, neginf=-1.0)
        pieces.append(
            mono if rate == HEARING_RATE else stream.resample_chunk(mono, last=size < BLOCK)
        )
    return np.concatenate(pieces)


def resampled(samples: Samples, rate: int, wanted: int) -> Samples:
    """The same sound with another number of samples a second."""
    if rate == wanted:
        return samples
    return np.asarray(soxr.resample(samples, rate, wanted), np.float32)


def to_pcm(samples: Samples) -> bytes:
    """Signed 16 bit, little endian."""
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def from_pcm(data: bytes) -> Samples:
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


async def encoded(
    chunks: AsyncIterator[Samples], rate: int, wanted: Format
) -> AsyncGenerator[bytes]:
    """The sound in the wanted format, piece by piece while it is made."""
    match wanted:
        case "pcm":
            stream = soxr.ResampleStream(rate, PCM_RATE, 1, dtype="float32")
            async for chunk in chunks:
                yield to_pcm(stream.resample_chunk(chunk))
            yield to_pcm(stream.resample_chunk(np.zeros(0, np.float32), last=True))
        case "wav":
            yield _wav_header(rate)
            async for chunk in chunks:
                yield to_pcm(chunk)
        case _:
            container, codec = CONTAINERS[wanted]
            out = OPUS_RATE if wanted == "opus" else rate
            sink = _Sink()
            with soundfile.SoundFile(
                sink,
                "w",
                samplerate=out,
                channels=1,
                format=container,
                subtype=codec,
                # Players guess the length of a stream without an index from its first bit rate.
                bitrate_mode="CONSTANT" if wanted == "mp3" else None,
                compression_level=0.5 if wanted == "mp3" else None,
            ) as file:
                async for chunk in chunks:
                    file.write(resampled(chunk, rate, out))
                    if wanted != "flac":  # its header is written last
                        yield sink.take()
            yield sink.take()


def _wav_header(rate: int) -> bytes:
    """The header of a WAV of 16-bit samples that ends when the connection does."""
    return b"".join(
        [
            b"RIFF", ENDLESS.to_bytes(4, "little"), b"WAVEfmt ", (16).to_bytes(4, "little"),
            (1).to_bytes(2, "little"), (1).to_bytes(2, "little"), rate.to_bytes(4, "little"),
            (2 * rate).to_bytes(4, "little"), (2).to_bytes(2, "little"),
            (16).to_bytes(2, "little"), b"data", (ENDLESS - 36).to_bytes(4, "little"),
        ]
    )  # fmt: skip


class _Sink(io.BytesIO):
    """A file for libsndfile; data before its position can be sent already."""

    sent = 0

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        data = self.getvalue()[self.sent :]
        self.sent += len(data)
        return data
