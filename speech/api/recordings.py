"""What people send to be heard, as samples: also what phones and browsers record."""

import io

import av
import numpy as np

from speech.audio import HEARING_RATE, Samples, decode
from speech.errors import TooLong, UnreadableAudio


def decoded(data: bytes, *, longest_seconds: float) -> Samples:
    """Samples at `HEARING_RATE` of WAV, FLAC, MP3 and Ogg, else of what FFmpeg knows: MP4, WebM.

    Raises `UnreadableAudio`, or `TooLong` before anything long is decoded.
    """
    try:
        return decode(data, longest_seconds=longest_seconds)
    except UnreadableAudio as unreadable:
        try:
            return _by_ffmpeg(data, longest_seconds)
        except (av.FFmpegError, IndexError):  # An index error: it has no sound.
            raise unreadable from None


def _by_ffmpeg(data: bytes, longest_seconds: float) -> Samples:
    most, found, pieces = int(longest_seconds * HEARING_RATE), 0, []
    resampler = av.AudioResampler(format="flt", layout="mono", rate=HEARING_RATE)
    with av.open(io.BytesIO(data), "r") as file:
        for frame in file.decode(audio=0):
            for piece in resampler.resample(frame):
                pieces.append(piece.to_ndarray()[0])
                found += piece.samples
            if found > most:
                raise TooLong(f"The audio is longer than {longest_seconds:g} s.")
    pieces += [piece.to_ndarray()[0] for piece in resampler.resample(None)]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
