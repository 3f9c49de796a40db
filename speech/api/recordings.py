"""Decode uploaded recordings, including the formats of phones and browsers."""

import io
from typing import Final

import av
import numpy as np

from speech.audio import HEARING_RATE, Samples, decode
from speech.errors import TooLong, UnreadableAudio

CONTAINERS: Final = "mov,mp4,m4a,3gp,3g2,matroska,webm,ogg,mp3,aac,wav,flac,amr,aiff,asf,avi"
"""Formats that FFmpeg may detect. Others, such as playlists, would make it open other files."""

ALONE: Final = {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"}


def decoded(data: bytes, *, longest_seconds: float) -> Samples:
    """Decode WAV, FLAC, MP3, Ogg, or a format of FFmpeg, to samples at `HEARING_RATE`.

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
    with av.open(io.BytesIO(data), "r", options=ALONE) as file:
        for frame in file.decode(audio=0):
            for piece in resampler.resample(frame):
                pieces.append(piece.to_ndarray()[0])
                found += piece.samples
            if found > most:
                raise TooLong(f"The audio is longer than {longest_seconds:g} s.")
    pieces += [piece.to_ndarray()[0] for piece in resampler.resample(None)]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
