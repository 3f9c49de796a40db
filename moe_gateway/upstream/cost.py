"""What a whole answer cost, read off it without building it up."""

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
    """What a whole answer says that it cost. Raises `DecodeError` for what is no JSON object."""
    try:
        usage = _COUNTED.decode(answer).usage
    except msgspec.ValidationError:
        # Counts that are not as they should be: some of them may be of use.
        return count_of(orjson.loads(bytes(_TOLD.decode(answer).usage)))
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    cached = 0 if details is None else details.cached_tokens
    return TokenCount(usage.prompt_tokens, usage.completion_tokens, cached)
