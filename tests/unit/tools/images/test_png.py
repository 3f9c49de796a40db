"""Metadata of pictures."""

import io

import pytest
from PIL import Image

from pipecatapp.tools.images.png import NotAPicture, as_png, metadata, size_of, with_metadata


def picture(form: str = "PNG") -> bytes:
    """A small picture."""
    data = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(data, form)
    return data.getvalue()


@pytest.mark.parametrize("prompt", ["a red fox", "лиса 狐\nline", "nul\0", ""])
def test_metadata_is_read_by_other_programs(prompt: str) -> None:
    """Image viewers and galleries show tEXt and iTXt."""
    png = with_metadata(picture(), {"prompt": prompt, "seed": "7"})
    with Image.open(io.BytesIO(png)) as found:
        found.load()
        assert found.text == {"prompt": prompt.replace("\0", ""), "seed": "7"}  # type: ignore[attr-defined]
    assert metadata(png) == {"prompt": prompt.replace("\0", ""), "seed": "7"}
    assert size_of(png) == (4, 3)


def test_metadata_of_the_expert_is_kept_and_ours_replaced() -> None:
    """Diffusion programs write their own parameters."""
    png = with_metadata(picture(), {"parameters": "steps: 20", "seed": "1"})
    assert metadata(with_metadata(png, {"seed": "2"})) == {"parameters": "steps: 20", "seed": "2"}


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "GIF"])
def test_other_pictures_become_png(form: str) -> None:
    """Servers differ in what they return."""
    assert size_of(as_png(picture(form))) == (4, 3)


@pytest.mark.parametrize(
    "data", [b"", b"text", b"<svg/>", picture()[:40], picture()[:-4], b"\x89PNG\r\n\x1a\n"]
)
def test_bytes_that_are_no_picture_are_refused(data: bytes) -> None:
    """A cut-off picture is not stored as if it were whole."""
    with pytest.raises(NotAPicture):
        with_metadata(as_png(data), {"seed": "1"})
