"""The language of a text, as far as its script tells, and of a tag that somebody gives it."""

import re
from typing import Final

SCRIPTS: Final = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
"""Ranges of Unicode; Japanese comes first, for its texts hold Chinese signs, too."""

LOOKED_AT: Final = 1000
"""Characters."""


def primary(tag: str) -> str:
    """The language of a tag (BCP 47): `de` of `de-AT`, `pt` of `pt_BR`. Who says the region, as
    most programs do, wants no other model for it."""
    return tag.replace("_", "-").partition("-")[0].strip().lower()


def language_of(text: str) -> str:
    """The language whose script makes up a third of the letters or more; empty where the script
    is shared by many, as the Latin one is: then only the caller can tell."""
    if text.isascii():
        return ""
    text = text[:LOOKED_AT]
    letters = sum(sign.isalpha() for sign in text)
    for language, script in SCRIPTS:
        if len(script.findall(text)) * 3 > letters:
            return language
    return ""
