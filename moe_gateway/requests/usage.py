"""Read the token counts of a complete answer without decoding all of it."""

import msgspec
import orjson

from hearth.openai_api.usage import TokenCount, count_of


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Counted(msgspec.Struct):
    usage: _Usage | None = None


class _Told(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"null")


_COUNTED = msgspec.json.Decoder(_Counted)
_TOLD = msgspec.json.Decoder(_Told)


def cost_of(answer: bytes) -> TokenCount | None:
    """Return the token counts of an answer. Raises `DecodeError` if it is not a JSON object."""
    try:
        usage = _COUNTED.decode(answer).usage
    except msgspec.ValidationError:
        # Some counts have a wrong type; the others may be usable.
        return count_of(orjson.loads(bytes(_TOLD.decode(answer).usage)))
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    cached = 0 if details is None else details.cached_tokens
    return TokenCount(usage.prompt_tokens, usage.completion_tokens, cached)
