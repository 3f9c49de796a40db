"""Sound in and out, in every format."""

import io
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest
import soundfile

from speech.api.recordings import decoded
from speech.audio import HEARING_RATE, PCM_RATE, Format, Samples, decode, encoded, to_pcm
from speech.errors import TooLong, UnreadableAudio

RATE = 22_050


def tone(seconds: float, rate: int = RATE) -> Samples:
    """A quiet tone of 440 Hz."""
    times = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)


def wav(samples: Samples, rate: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return file.getvalue()


def pitch(samples: Samples) -> float:
    """The loudest frequency in hertz."""
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax() * HEARING_RATE / len(samples))


@pytest.mark.parametrize("wanted", get_args(Format))
async def test_sound_that_was_encoded_is_the_same_sound(wanted: Format) -> None:
    """A wrong rate or byte order is a voice that nobody understands."""

    async def chunks() -> AsyncIterator[Samples]:
        for part in np.array_split(tone(1.5), 7):
            yield part

    data = b"".join([piece async for piece in encoded(chunks(), RATE, wanted)])
    if wanted == "pcm":
        data = wav(np.frombuffer(data, "<i2"), PCM_RATE)
    heard = decode(data, longest_seconds=10)

    assert len(heard) / HEARING_RATE == pytest.approx(1.5, abs=0.15)
    assert pitch(heard) == pytest.approx(440, abs=2)


async def test_sound_comes_while_it_is_made() -> None:
    """Who waits for the last sentence has waited too long for the first."""
    made = 0

    async def chunks() -> AsyncIterator[Samples]:
        nonlocal made
        for part in np.array_split(tone(20), 20):
            made += 1
            yield part

    for wanted in ("wav", "pcm", "mp3", "opus"):
        made = 0
        async for piece in encoded(chunks(), RATE, wanted):
            if len(piece) > 100:
                break
        assert made < 20, wanted


def test_stereo_of_any_rate_is_heard_as_one_channel() -> None:
    """Microphones and phones record as they like."""
    both = np.stack([tone(1, 48_000), tone(1, 48_000)], axis=1)

    assert len(decode(wav(both, 48_000), longest_seconds=5)) == HEARING_RATE


def test_audio_that_is_too_long_or_none_is_refused() -> None:
    """Neither may reach the engine: one would block it, the other break it."""
    with pytest.raises(TooLong, match="longer than"):
        decode(wav(tone(1), RATE), longest_seconds=0.5)
    with pytest.raises(UnreadableAudio, match="cannot be read as audio"):
        decode(b"# A text", longest_seconds=1)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("webm", "libopus")])
def test_recordings_of_phones_and_browsers_are_heard(container: str, codec: str) -> None:
    """OpenAI's API takes m4a and webm, and so do programs that record."""
    file, rate = io.BytesIO(), 48_000
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate, layout="mono")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(tone(1.5, rate)[None], format="flt", layout="mono")
        frame.sample_rate = rate
        for part in (frame, None):
            for packet in stream.encode(part):
                out.mux(packet)
    heard = decoded(file.getvalue(), longest_seconds=10)

    assert len(heard) / HEARING_RATE == pytest.approx(1.5, abs=0.1)
    assert pitch(heard) == pytest.approx(440, abs=2)
    with pytest.raises(TooLong):
        decoded(file.getvalue(), longest_seconds=0.5)
    with pytest.raises(UnreadableAudio):
        decoded(file.getvalue()[:40], longest_seconds=10)


def test_samples_out_of_range_are_cut_and_not_wrapped() -> None:
    """A wrapped sample is a crack as loud as the loudspeaker can."""
    loud = np.frombuffer(to_pcm(np.array([2.0, -2.0, 0.0], np.float32)), "<i2")

    assert loud.tolist() == [32767, -32767, 0]


def test_silence_in_many_channels_takes_no_more_memory_than_it_has_to() -> None:
    """Silence is small in a file: a few kilobytes must not fill the memory of the house."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros((20 * 192_000, 8), np.int16), 192_000, format="FLAC")

    tracemalloc.start()
    try:
        heard = decode(file.getvalue(), longest_seconds=30)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(heard) == 20 * HEARING_RATE
    assert most < 40_000_000
    with pytest.raises(TooLong):
        decode(file.getvalue(), longest_seconds=19)


def test_file_of_floats_that_are_no_numbers_is_heard_as_silence() -> None:
    """One such sample would be all that an engine hears."""
    file = io.BytesIO()
    samples = np.zeros(100, np.float32)
    samples[[3, 5]] = np.nan, np.inf
    soundfile.write(file, samples, HEARING_RATE, format="WAV", subtype="FLOAT")

    heard = decode(file.getvalue(), longest_seconds=1)

    assert heard[3] == 0
    assert np.isfinite(heard).all()


@pytest.mark.parametrize(
    "told",
    [
        "ffconcat version 1.0\nfile 'private.wav'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9.0,\nprivate.wav\n#EXT-X-ENDLIST\n",
    ],
)
def test_list_of_files_is_no_recording(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may be heard must not be able to listen to what lies on the machine."""
    (tmp_path / "private.wav").write_bytes(wav(tone(1), HEARING_RATE))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UnreadableAudio):
        decoded(told.encode(), longest_seconds=10)
