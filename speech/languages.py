"""Languages by their codes (ISO 639-1), as settings and requests name them."""

from collections.abc import Sequence
from typing import Final

from hearth.models.catalogue import SpeechModel

MANY: Final = "many"
"""The language of a catalogue entry that supports all of `WHISPER`."""

CODES: Final = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he"
    " hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne"
    " nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk"
    " ur uz vi yi yo zh"
)
WHISPER: Final = frozenset(CODES.split())
"""Languages of multilingual Whisper models. Source: github.com/openai/whisper, tokenizer.py."""


def code(language: str) -> str:
    """Return the language without its country, in lower case: `de-DE` and `DE` are `de`."""
    return language.lower().replace("_", "-").split("-")[0]


def known(of: str) -> frozenset[str]:
    """Return the language codes of a model whose catalogue entry has the language `of`."""
    return WHISPER if of == MANY else frozenset({code(of)})


def knows(of: str, language: str) -> bool:
    """Return whether a model with the language `of` supports `language`."""
    return code(language) in known(of)


def remedy(language: str, duty: str, models: Sequence[SpeechModel]) -> str:
    """Return the remedy for a language that the model does not support, with sizes and licences."""
    able = [m for m in models if m.duty == duty and knows(m.language, language)]
    if not able:
        service = "speech-to-text" if duty == "stt" else "text-to-speech"
        return f"The catalogue has no model for {service} in {code(language)!r}; add one to it."
    names = ", ".join(f"{m.name} ({m.size_bytes / 1e6:.0f} MB, {m.license})" for m in able)
    return (
        f"Models that support {code(language)!r}: {names}. Get one with"
        f" `hearth models pull {able[0].name}` and set SPEECH_MODEL={able[0].name}."
    )
