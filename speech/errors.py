"""The errors of this package.

SpeechError
├── EngineFailed     the engine did not start, or broke while it worked
├── Busy             more is waiting for the engine than the settings allow
├── UnreadableAudio  the bytes cannot be decoded as audio
└── TooLong          there is more of it than the settings allow
"""


class SpeechError(Exception):
    """Base of the errors of this package; `status` and `code` are what the caller gets."""

    status = 500
    code = "speech_failed"


class EngineFailed(SpeechError):
    """Try again: an engine that ended is restarted. Its output is in the service's log."""

    status = 503
    code = "engine_failed"


class Busy(SpeechError):
    """Ask again in a moment."""

    status = 503
    code = "busy"


class UnreadableAudio(SpeechError):
    """Send WAV, FLAC, MP3, Ogg (Opus or Vorbis), MP4 or WebM."""

    status = 400
    code = "unreadable_audio"


class TooLong(SpeechError):
    """Send it in parts, or raise SPEECH_MAX_AUDIO_SECONDS."""

    status = 413
    code = "audio_too_long"
