"""What is kept of a program's output."""

from hypothesis import given
from hypothesis import strategies as st

from pipecatapp.sandbox.output import Stream


@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(2, 60))
def test_head_and_tail_are_kept_and_the_rest_is_counted(parts: list[bytes], kept: int) -> None:
    """However a program's output comes in, the same bytes must be kept."""
    stream = Stream(kept)
    for part in parts:
        stream.add(part)
    whole = b"".join(parts)
    text = stream.text()

    assert text.cut == max(0, len(whole) - kept)
    if text.cut:
        gap = f"\n[… {text.cut} bytes cut …]\n"
        head, tail = whole[: kept // 2], whole[len(whole) - (kept - kept // 2) :]
        assert text.text == head.decode(errors="replace") + gap + tail.decode(errors="replace")
    else:
        assert text.text == whole.decode(errors="replace")


@given(st.text("abc\n", max_size=40), st.text("abc\n", max_size=40), st.integers(2, 60))
def test_secret_is_hidden_whole_and_in_what_the_cut_has_left(
    before: str, after: str, kept: int
) -> None:
    """A key whose middle is cut out must not be told by its two ends."""
    secret = "0123456789"
    stream = Stream(kept)
    stream.add(f"{before}{secret}{after}".encode())
    shown = stream.text().without([secret])

    left = shown.text.replace(f"[… {shown.cut} bytes cut …]", "") if shown.cut else shown.text
    assert not set(left) & set(secret)
    assert shown.cut == stream.text().cut
