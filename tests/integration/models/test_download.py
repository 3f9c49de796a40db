"""The download: it loses nothing, mixes nothing, and says what is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from hearth.models.download import Download
from hearth.models.errors import DiskFull, SourceGone, SourceUnreachable
from hearth.models.progress import Silent
from tests.integration.models.conftest import CONTENT
from tests.integration.models.hub import Hub

Serve = Callable[[ASGIApp], str]
HALF = len(CONTENT) // 2


class Seen(Silent):
    """Keeps the last figures that it was told."""

    figures: tuple[int, int | None] = (0, None)

    def moved(self, done: int, total: int | None) -> None:
        self.figures = (done, total)


@pytest.fixture
def fetch(serve: Serve, tmp_path: Path) -> Callable[..., Path]:
    """`fetch(hub)` downloads from the hub, with hardly a pause between two tries."""

    def run(hub: Hub, *, size: int | None = None, waits: tuple[float, ...] = (0.01,)) -> Path:
        download = Download(f"{serve(hub)}/tiny.gguf", tmp_path / "tiny.part", size, waits)
        return download.run(Silent(), lambda needed: None)

    return run


def test_broken_connection_is_resumed_where_it_broke(fetch: Callable[..., Path]) -> None:
    """The last gigabyte of twenty must not cost the other nineteen."""
    hub = Hub(CONTENT, cuts=[HALF, HALF // 2])

    path = fetch(hub)

    assert path.read_bytes() == CONTENT
    assert hub.ranges == ["", f"bytes={HALF}-", f"bytes={HALF + HALF // 2}-"]


def test_next_pull_goes_on_with_what_the_last_one_left(
    fetch: Callable[..., Path], serve: Serve, tmp_path: Path
) -> None:
    """A laptop that was closed in the evening goes on in the morning."""
    hub = Hub(CONTENT, cuts=[HALF, 0, 0])
    address = serve(hub)
    download = Download(f"{address}/tiny.gguf", tmp_path / "tiny.part", None, (0.01,))
    with pytest.raises(SourceUnreachable):
        download.run(Silent(), lambda needed: None)

    seen = Seen()
    path = download.run(seen, lambda needed: None)

    assert path.read_bytes() == CONTENT
    assert hub.ranges[-1] == f"bytes={HALF}-"
    assert seen.figures == (len(CONTENT), len(CONTENT))


def test_download_that_was_whole_already_is_not_fetched_again(serve: Serve, tmp_path: Path) -> None:
    """Ctrl-C while twenty gigabytes are being checked must not cost the twenty gigabytes."""
    hub = Hub(CONTENT)
    download = Download(f"{serve(hub)}/tiny.gguf", tmp_path / "tiny.part", None, ())
    download.run(Silent(), lambda needed: None)

    path = download.run(Silent(), lambda needed: None)

    assert path.read_bytes() == CONTENT
    assert hub.ranges == ["", f"bytes={len(CONTENT)}-"]


def test_file_that_changed_at_its_source_is_fetched_whole(fetch: Callable[..., Path]) -> None:
    """Half of the old version and half of the new one would be neither."""
    hub = Hub(CONTENT, cuts=[HALF])
    new = bytes(reversed(CONTENT))

    async def change(scope: object, receive: object, send: object) -> None:
        if len(hub.ranges) == 1:
            hub.content, hub.etag = new, '"v2"'
        await hub(scope, receive, send)  # type: ignore[arg-type]

    path = fetch(change)

    assert path.read_bytes() == new


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_source_without_a_strong_tag_starts_from_the_beginning(
    fetch: Callable[..., Path], etag: str
) -> None:
    """Without a tag nobody knows whether the rest belongs to what is here."""
    hub = Hub(CONTENT, etag=etag, cuts=[HALF])

    path = fetch(hub)

    assert path.read_bytes() == CONTENT
    assert hub.ranges == ["", ""]


def test_server_in_trouble_is_asked_again_for_the_rest(fetch: Callable[..., Path]) -> None:
    """A 503 of a busy hub passes; what came before it must still count then."""
    hub = Hub(CONTENT, cuts=[HALF])

    async def falter(scope: object, receive: object, send: object) -> None:
        hub.status = 503 if len(hub.ranges) == 1 else None
        await hub(scope, receive, send)  # type: ignore[arg-type]

    path = fetch(falter)

    assert path.read_bytes() == CONTENT
    assert hub.ranges == ["", f"bytes={HALF}-", f"bytes={HALF}-"]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_refusal_is_final_and_names_the_address(fetch: Callable[..., Path], status: int) -> None:
    """Asking a second time does not bring a deleted file back."""
    hub = Hub(CONTENT, status=status)

    with pytest.raises(SourceGone, match=rf"tiny\.gguf responds with HTTP {status}\. Choose"):
        fetch(hub)
    assert len(hub.ranges) == 1


def test_file_of_another_size_is_refused_before_it_is_fetched(fetch: Callable[..., Path]) -> None:
    """It cannot have the pinned sha256; finding out after twenty gigabytes is too late."""
    with pytest.raises(SourceGone, match=f"has {len(CONTENT)} bytes; the catalogue expects 5"):
        fetch(Hub(CONTENT), size=5)


def test_redirect_out_of_https_is_refused(fetch: Callable[..., Path]) -> None:
    """A hub sends people on to its storage; that hop must be as safe as the first one."""
    hub = Hub(CONTENT, status=302, location="http://example.org/tiny.gguf")

    with pytest.raises(SourceGone, match=r"redirects to http://example\.org.* not https"):
        fetch(hub)


def test_redirects_in_a_circle_are_told(fetch: Callable[..., Path]) -> None:
    """A mirror that is set up wrongly is not reached by asking again."""
    hub = Hub(CONTENT, status=302, location="/tiny.gguf")

    with pytest.raises(SourceGone, match="has a redirect loop"):
        fetch(hub)


def test_unreachable_source_is_one_sentence_after_the_last_try(tmp_path: Path) -> None:
    """Without a network the person must not read a stack of sockets."""
    download = Download("http://127.0.0.1:9/tiny.gguf", tmp_path / "part", None, (0.01, 0.01))

    with pytest.raises(SourceUnreachable, match=r"127\.0\.0\.1 cannot be reached: .*network"):
        download.run(Silent(), lambda needed: None)


def test_length_is_weighed_against_the_disk_before_the_first_byte(
    serve: Serve, tmp_path: Path
) -> None:
    """The catalogue does not know each size; the source does."""

    def refuse(needed: int) -> None:
        raise DiskFull(tmp_path, needed=needed, free=0)

    download = Download(f"{serve(Hub(CONTENT))}/tiny.gguf", tmp_path / "part")

    with pytest.raises(DiskFull, match="1 MB are needed, 0 MB are free"):
        download.run(Silent(), refuse)
    assert not (tmp_path / "part").exists()
