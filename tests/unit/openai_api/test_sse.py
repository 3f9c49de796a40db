"""The event stream reader and writer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.openai_api.sse import EventTooLong, SseEvent, SseReader, sse_event

CUTS = st.lists(st.integers(1, 40), max_size=30)
EVENTS = st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")), max_size=6)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The same bytes in pieces of these sizes, then the rest."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def read(pieces: list[bytes]) -> list[SseEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@given(EVENTS, CUTS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_reader_gives_the_same_events_however_the_bytes_are_cut(
    texts: list[str], sizes: list[int], newline: str
) -> None:
    """TCP cuts where it likes: inside a character, between CR and LF, anywhere."""
    lines = [f": note{newline}data: {text}{newline}{newline}" for text in texts]
    wire = "".join(lines).encode()

    assert [event.data for event in read(cut(wire, sizes))] == texts


@given(st.text(st.characters(exclude_characters="\r", codec="utf-8")), CUTS)
def test_written_text_is_read_back(text: str, sizes: list[int]) -> None:
    """A text of several lines is several data lines, and one event again."""
    assert [event.data for event in read(cut(sse_event(text), sizes))] == [text]


def test_written_object_is_one_line_of_json() -> None:
    """OpenAI clients read one JSON document per data line."""
    wire = sse_event({"a": "x\ny"})

    assert wire.count(b"\n") == 2
    assert json.loads(wire.removeprefix(b"data: ")) == {"a": "x\ny"}


def test_reader_keeps_type_and_id_of_events() -> None:
    """A client that reconnects tells the last id that it saw."""
    wire = sse_event("x", event="node.done", id="7") + sse_event("y")

    assert read([wire]) == [SseEvent("x", "node.done", "7"), SseEvent("y", "message", "7")]


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (b"\xef\xbb\xbfdata: x\n\n", ["x"]),
        (b"data:x\n\n", ["x"]),
        (b"data:  x\n\n", [" x"]),
        (b"data\n\n", [""]),
        (b"event: ping\n\n: keep-alive\n\ndata: x\n\n", ["x"]),
        (b"data: x\n\ndata: half", ["x"]),
        (b"\n\n\ndata: \xff\n\n", ["\N{REPLACEMENT CHARACTER}"]),
    ],
)
def test_reader_follows_the_standard_at_its_edges(wire: bytes, data: list[str]) -> None:
    """Byte order mark, missing space, comments, no data, no end, bytes that are no UTF-8."""
    assert [event.data for event in read([wire])] == data


def test_reader_gives_up_on_an_event_without_end() -> None:
    """A server gone mad must not fill our memory."""
    reader = SseReader(max_event_bytes=100)

    reader.feed(b"data: xxxx\n" * 10)
    with pytest.raises(EventTooLong, match="100 bytes"):
        reader.feed(b"data: xxxx\n")
