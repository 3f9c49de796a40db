"""All files of an answer are written, or none."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipecatapp.tools.code.edit.transaction import Change, write_all


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to write more than `size` bytes to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_undone_changes_leave_no_folders(tmp_path: Path) -> None:
    """A file that became a folder is a file again after a later write has failed."""
    (tmp_path / "a").write_bytes(b"text")
    changes = [
        Change("a", b"text", None),
        Change("a/b/c", None, b"new"),
        Change("large", None, b"x" * 1000),
    ]

    with files_of_at_most(100), pytest.raises(OSError, match=r"File too large$"):
        write_all(tmp_path, changes)

    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"a"}
    assert (tmp_path / "a").read_bytes() == b"text"


def test_error_names_the_files_that_stay_changed(tmp_path: Path) -> None:
    """Who reads the error must not take a half-changed folder for an unchanged one."""
    large = b"x" * 1000
    (tmp_path / "f").write_bytes(large)

    with files_of_at_most(100), pytest.raises(OSError, match=r"still changed: f$"):
        write_all(tmp_path, [Change("f", large, b"y"), Change("g", None, large)])

    assert (tmp_path / "f").read_bytes() == b"y"


def test_error_does_not_name_a_file_that_was_never_written(tmp_path: Path) -> None:
    """A folder that could not be made holds nothing to put back."""
    (tmp_path / "a").write_bytes(b"text")

    with pytest.raises(OSError, match=r"^(?!.*still changed)"):
        write_all(tmp_path, [Change("b", None, b"1"), Change("a/b", None, b"2")])

    assert [path.name for path in tmp_path.iterdir()] == ["a"]
