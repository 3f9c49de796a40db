"""Languages by their codes (ISO 639-1), and what a setting or a request means by one."""

from collections.abc import Sequence
from typing import Final

from hearth.models.catalogue import SpeechModel

MANY: Final = "many"
"""What the catalogue says of a model that hears all of `WHISPER`."""

CODES: Final = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he"
    " hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne"
    " nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk"
    " ur uz vi yi yo zh"
)
WHISPER: Final = frozenset(CODES.split())
"""What Whisper's models of many languages hear. Source: github.com/openai/whisper, tokenizer.py."""


def code(language: str) -> str:
    """`de-DE`, `DE` and `de` are `de`."""
    return language.lower().replace("_", "-").split("-")[0]


def known(of: str) -> frozenset[str]:
    """The codes of what a model hears or speaks whose catalogue entry says `of`."""
    return WHISPER if of == MANY else frozenset({code(of)})


def knows(of: str, language: str) -> bool:
    """Whether such a model hears or speaks the language."""
    return code(language) in known(of)


def remedy(language: str, duty: str, models: Sequence[SpeechModel]) -> str:
    """What to do where the model that is set does not know it, with sizes and licences."""
    able = [m for m in models if m.duty == duty and knows(m.language, language)]
    verb = "hears" if duty == "stt" else "speaks"
    if not able:
        return f"No model of the catalogue {verb} {code(language)!r}; add one to it."
    names = ", ".join(f"{m.name} ({m.size_bytes / 1e6:.0f} MB, {m.license})" for m in able)
    return (
        f"{names} {verb} {code(language)!r}: get it with `hearth models pull {able[0].name}`"
        f" and set SPEECH_MODEL={able[0].name}."
    )
