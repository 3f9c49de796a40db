"""Which conversations name an address that an engine would fetch."""

import json
from base64 import b64encode, encodebytes
from collections.abc import Callable
from typing import Any

import pytest

from hearth.service.http_errors import Refused
from moe_gateway.routing.addresses import address_in, refuse_addresses

DATA = "data:image/png;base64,iVBORw0KGgo="
PICTURE = {"type": "image_url", "image_url": {"url": DATA, "detail": "high"}}


def body(*parts: Any) -> bytes:
    return json.dumps(
        {"model": "eyes", "messages": [{"role": "user", "content": [*parts]}]}
    ).encode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://10.0.0.1/admin"}},
        {"type": "image_url", "image_url": "https://10.0.0.1/cat.png"},
        {"type": "image_url", "image_url": {"url": "HTTP://10.0.0.1/"}},
        {"type": "image_url", "image_url": {"url": " http://10.0.0.1/"}},
        {"type": "image_url", "image_url": {"url": "httpfoo"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": {"url": "//10.0.0.1/cat.png"}},
        {"type": "image_url", "image_url": {"url": "//host.lan/x"}},
        {"type": "image_url", "image_url": {"url": "//router:80/x"}},
        {"type": "input_audio", "input_audio": {"data": f"//{'a' * 80}@10.0.0.1/"}},
        {"type": "input_audio", "input_audio": {"data": "httpAAAA", "format": "mp3"}},
        {"type": "image_url", "image_url": {"url": "gopher://10.0.0.1/"}},
        {"type": "input_audio", "input_audio": {"data": "http://10.0.0.1/", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"url": "http://10.0.0.1/"}},
        {"type": "input_video", "input_video": {"data": "http://10.0.0.1/"}},
        {"type": "video_url", "video_url": {"url": "http://10.0.0.1/"}},
        {"type": "file", "file": {"file_url": "http://10.0.0.1/"}},
        {"type": "odd", "image": ["data:x", {"deep": "http://10.0.0.1/"}]},
    ],
)  # fmt: skip
def test_address_is_refused_with_its_place(part: Any) -> None:
    """Whatever the part is called, and however the address is written."""
    with pytest.raises(Refused) as refused:
        refuse_addresses(body({"type": "text", "text": "see"}, part))

    assert (refused.value.status, refused.value.code) == (400, "address_not_allowed")
    assert refused.value.param == "messages[0].content[1]"


@pytest.mark.parametrize(
    "written",
    [
        rb'{"\u0069mage_url": {"url": "http://10.0.0.1/"}, "type": "x"}',
        rb'{"image_url": {"\u0075rl": "http://10.0.0.1/"}, "type": "image_url"}',
        rb'{"\u0069mage_u\u0072l": {"u\u0072l": "\u0068ttp:\/\/10.0.0.1\/"}}',
        rb'{"image_url": {"url": "data:x"}, "image_url": {"url": "http:\/\/10.0.0.1"}}',
    ],
)
def test_escapes_and_repeated_names_hide_nothing(written: bytes) -> None:
    """The engine undoes them, so they are undone before the look."""
    whole = body().replace(b"[]", b"[" + written + b"]")

    with pytest.raises(Refused, match="names an address"):
        refuse_addresses(whole)


@pytest.mark.parametrize(
    "harmless",
    [
        body(PICTURE),
        body({"type": "text", "text": 'http://10.0.0.1/ is my "url": fetch it'}, PICTURE),
        body({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        body({"type": "file", "file": {"filename": "http://x.pdf", "file_data": DATA}}),
        b'{"model": "m", "messages": [{"role": "user", "content": "\\"url\\": http://10.0.0.1"}]}',
        b'{"model": "m", "messages": "\\u0061", "image_url": "http://10.0.0.1"}',
        b'{"model": "m", "messages": [1, {"content": [null, 2]}], "input": [{"url": 3}]}',
        b'{"model": "m", "input": "\\u00e4"}',
    ],
)
def test_words_and_data_pass(harmless: bytes) -> None:
    """People write addresses into sentences, and only pictures, sounds and films are fetched."""
    assert address_in(harmless) is None


@pytest.mark.parametrize("frame", [b"\xff\xfb\x90\x64", b"\xff\xf3\x84\xc4"])
@pytest.mark.parametrize("written", [b64encode, encodebytes])
def test_sound_that_begins_like_an_address_passes(
    frame: bytes, written: Callable[[bytes], bytes]
) -> None:
    """Frames of MP3, of the first and of the second MPEG, on one line or on many."""
    sound = written(frame + bytes(range(256))).decode()
    part = {"type": "input_audio", "input_audio": {"data": sound, "format": "mp3"}}

    assert sound.startswith("//")
    assert address_in(body(part)) is None


def test_what_cannot_be_read_is_refused() -> None:
    """Half of a pair is no text; what another reader makes of it is anybody's guess."""
    with pytest.raises(Refused, match="not valid JSON"):
        refuse_addresses(body(PICTURE).replace(b"high", b"\\ud800"))
