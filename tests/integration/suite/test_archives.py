"""Archives that the tests unpack, which name the owners of another machine."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.archives import unpack

SOMEBODY = 54_321
"""A user id that no machine has."""


def test_what_root_unpacks_belongs_to_root(tmp_path: Path) -> None:
    """Git refuses a repository of another owner, and an archive names who packed it."""
    file, words = tmp_path / "packed.tar.gz", b"words"
    with tarfile.open(file, "w:gz") as packed:
        member = tarfile.TarInfo("inner/file.txt")
        member.size, member.uid, member.gid = len(words), SOMEBODY, SOMEBODY
        packed.addfile(member, io.BytesIO(words))

    unpack(file, tmp_path / "new" / "folder")

    found = tmp_path / "new" / "folder" / "inner" / "file.txt"
    assert found.read_bytes() == words
    assert found.stat().st_uid == os.geteuid()


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    """A download that was cut short must not be taken for an empty package."""
    file = tmp_path / "cut.tar.gz"
    file.write_bytes(b"no archive")
    with pytest.raises(subprocess.CalledProcessError):
        unpack(file, tmp_path / "folder")
