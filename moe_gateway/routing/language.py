"""The languages of a text, as far as its script determines them, and of a language tag."""

import re
from typing import Final

SCRIPTS: Final = (
    (("ja",), re.compile("[\u3040-\u30ff]+")),
    (("ko",), re.compile("[\uac00-\ud7af\u1100-\u11ff]+")),
    (("zh", "ja"), re.compile("[\u4e00-\u9fff]+")),
    (("ar", "fa", "ur", "ps", "sd", "ug", "ckb"), re.compile("[\u0600-\u06ff]+")),
    (("he", "yi"), re.compile("[\u0590-\u05ff]+")),
    (("hi", "mr", "ne", "sa"), re.compile("[\u0900-\u097f]+")),
    (("th",), re.compile("[\u0e00-\u0e7f]+")),
    (("el",), re.compile("[\u0370-\u03ff]{3,}")),
    (("ru", "uk", "be", "bg", "sr", "mk", "kk", "ky", "mn", "tg"), re.compile("[\u0400-\u04ff]+")),
)
"""Languages with their Unicode ranges. Japanese is first, because its texts also contain Chinese
characters; fewer than three Greek letters are a formula."""

LOOKED_AT: Final = 1000
"""Characters."""


def primary(tag: str) -> str:
    """Return the language of a tag (BCP 47): `de` of `de-AT`, `pt` of `pt_BR`. Most programs
    send a region, but the model does not depend on it."""
    return tag.replace("_", "-").partition("-")[0].strip().lower()


def languages_of(text: str) -> tuple[str, ...]:
    """Return the languages whose script is used by at least a third of the letters; none if the
    script is Latin, which nearly all languages share: then only the caller can state the
    language."""
    if text.isascii():
        return ()
    text = text[:LOOKED_AT]
    letters = sum(sign.isalpha() for sign in text)
    for languages, script in SCRIPTS:
        if sum(map(len, script.findall(text))) * 3 > letters:
            return languages
    return ()
