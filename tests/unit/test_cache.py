"""The test cache: a result that is kept must be the one that these inputs make."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    monkeypatch.setenv("HEARTH_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Writes a file, and counts how often."""

    def __init__(self, text: str = "made") -> None:
        self.text = text
        self.count = 0

    def __call__(self, folder: Path) -> None:
        self.count += 1
        (folder / "part").mkdir()
        (folder / "part" / "result").write_text(self.text)


def result(folder: Path) -> str:
    return (folder / "part" / "result").read_text()


def test_entry_is_made_once_for_the_same_inputs() -> None:
    """What takes minutes must not be done again by the next run."""
    make = Maker()

    first, second = (cache.entry("x", ["a", b"b"], make) for _ in range(2))

    assert (first, result(first), make.count) == (second, "made", 1)
    assert cache.find("x", ["a", b"b"]) == first


def test_other_inputs_make_another_entry(tmp_path: Path) -> None:
    """A changed lock file must never be answered with the old environment."""
    lock = tmp_path / "lock"
    lock.write_text("one")
    first = cache.entry("x", [lock], Maker("one"))
    lock.write_text("two")

    second = cache.entry("x", [lock], Maker("two"))

    assert (result(first), result(second)) == ("one", "two")


def test_parts_are_told_apart_by_their_borders() -> None:
    """'ab' and 'a', 'b' are different inputs."""
    assert len({cache.key(parts) for parts in (["ab"], ["a", "b"], ["", "ab"])}) == 3


def test_folder_is_an_input_by_the_content_of_its_files(tmp_path: Path) -> None:
    """A renamed file changes what a build makes, as a changed one does; bytecode does not."""
    tree = tmp_path / "tree"
    (tree / "__pycache__").mkdir(parents=True)
    (tree / "one").write_text("1")
    before = cache.key([tree])
    (tree / "__pycache__" / "one.pyc").write_text("code")
    assert cache.key([tree]) == before

    (tree / "one").rename(tree / "two")

    assert cache.key([tree]) != before


def test_entry_whose_making_failed_is_made_again() -> None:
    """A run that was killed in the middle leaves half a result, which must not count."""

    def fail(folder: Path) -> None:
        Maker("half")(folder)
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        cache.entry("x", ["a"], fail)
    assert cache.find("x", ["a"]) is None

    assert result(cache.entry("x", ["a"], Maker("whole"))) == "whole"


@pytest.mark.parametrize("damage", ["truncated", "removed", "replaced", "mode"])
def test_damaged_entry_is_made_again(damage: str) -> None:
    """A disk that was full, or a person who tidied up, must not break every later run."""
    file = cache.entry("x", ["a"], Maker("sound")) / "part" / "result"
    match damage:
        case "truncated":
            file.write_text("so")
        case "removed":
            file.unlink()
        case "replaced":
            os.utime(file, ns=(1, 1))
        case _:
            file.chmod(0o755)
    make = Maker("sound")

    assert result(cache.entry("x", ["a"], make)) == "sound"
    assert make.count == 1


def test_files_that_are_added_later_are_no_damage() -> None:
    """Python writes bytecode into an environment when it first runs there."""
    folder, make = cache.entry("x", ["a"], Maker()), Maker()
    (folder / "part" / "__pycache__").mkdir()
    (folder / "part" / "added").write_text("more")

    assert cache.entry("x", ["a"], make) == folder
    assert make.count == 0


def test_two_runs_at_once_make_an_entry_once() -> None:
    """The second run waits for the first instead of writing into the same folder."""
    entered, release = threading.Event(), threading.Event()
    second = Maker()

    def slow(folder: Path) -> None:
        entered.set()
        assert release.wait(30)
        Maker("first")(folder)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(cache.entry, "x", ["a"], slow)
        assert entered.wait(30)
        two = pool.submit(cache.entry, "x", ["a"], second)
        release.set()

    assert result(one.result()) == result(two.result()) == "first"
    assert second.count == 0


def test_entry_that_no_run_uses_is_removed(folder: Path) -> None:
    """Every new lock file leaves an old environment behind, and disks are not endless."""
    old, used = cache.entry("x", ["old"], Maker()), cache.entry("x", ["used"], Maker())
    long_ago = time.time() - (cache.KEEP_DAYS + 1) * 24 * 3600
    for entry in (old, used):
        os.utime(folder / f"{entry.name}.manifest", (long_ago, long_ago))
    cache.entry("x", ["used"], Maker())

    cache.entry("x", ["new"], Maker())

    assert (old.exists(), used.exists()) == (False, True)


def test_link_replaces_what_an_older_version_left(tmp_path: Path) -> None:
    """A checkout from before the cache has folders where links are now."""
    target = tmp_path / "checkout" / "engines"
    target.mkdir(parents=True)
    (target / "old").write_text("old")
    folders = [cache.entry("x", [name], Maker(name)) for name in ("one", "two")]

    for folder in folders:
        assert result(cache.link(target, folder)) == result(folder)


def test_snapshot_is_copied_to_a_clone_that_has_none(tmp_path: Path) -> None:
    """A tool's own cache makes the check of a fresh clone as quick as the second one."""
    source, clone = tmp_path / "source", tmp_path / "clone"
    source.mkdir()
    (source / "cache").write_text("known")
    assert not cache.seed("tool", ["1"], clone)

    cache.publish("tool", ["1"], source)

    assert cache.seed("tool", ["1"], clone)
    assert (clone / "cache").read_text() == "known"
    (clone / "cache").write_text("newer")
    assert not cache.seed("tool", ["1"], clone)
    assert (clone / "cache").read_text() == "newer"
