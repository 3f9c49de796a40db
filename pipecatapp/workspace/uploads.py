"""Files that people send for their runs, in a git repository that workspaces begin with."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Final

from pipecatapp.workspace.git import Git, GitFailed, make
from pipecatapp.workspace.worktree import DEPTH, HIDDEN

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of one file."""
MOST: Final = 1000
"""Files of one run."""
LONGEST_NAME: Final = 255
"""Bytes of one name; file systems have this limit."""
UPLOAD: Final = re.compile(r"[0-9a-f]{40}")
RUNS: Final = "refs/runs/"
UNUSED_FOR: Final = "1.day.ago"
"""Uploads without a run are removed when they are older."""
STAMP: Final = "2000-01-01T00:00:00Z"
"""Of each commit, so that the same files have the same id."""


class NotUploaded(ValueError):
    """A file cannot be stored or used; the message says why."""


class NotStored(RuntimeError):
    """The machine cannot store a file, for example because its disk is full."""


@contextmanager
def _storing() -> Iterator[None]:
    """Raise `NotStored` for an error of the disk or of git."""
    try:
        yield
    except GitFailed as error:
        raise NotStored(f"The file cannot be stored: {error}") from error
    except OSError as error:
        raise NotStored(f"The file cannot be stored: {error.strerror}.") from error


class Uploads:
    """Stores uploaded files below `root`, each content once, until no run needs it.

    A run's files become a commit; its workspace begins with that commit.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._opening = asyncio.Lock()

    async def add(self, body: AsyncIterator[bytes]) -> str:
        """Store the bytes of a file as they arrive; return the id for `commit`.

        Raises `NotUploaded` above `LARGEST` bytes, and `NotStored`.
        """
        with _storing():
            git = await self._git()
            with NamedTemporaryFile(dir=self.root, prefix=".upload-") as file:
                size = 0
                async for data in body:
                    size += len(data)
                    if size > LARGEST:
                        raise NotUploaded(f"A file may have {LARGEST // 2**20} MiB at most.")
                    await asyncio.to_thread(file.write, data)
                await asyncio.to_thread(file.flush)
                return await git.text("hash-object", "-w", "--no-filters", "--", file.name)

    async def commit(self, files: Mapping[str, str]) -> str:
        """Make a commit of uploads by their paths in the workspace; return its id.

        Raises `NotUploaded` for a path that is not inside a workspace, and for an unknown upload;
        `NotStored` if the disk is full.
        """
        check_paths(files)
        with _storing():
            git = await self._git()
            await self._check_uploads(git, files)
            lines = (
                f"100644 {blob}\t".encode() + os.fsencode(path) for path, blob in files.items()
            )
            index = self.root / f".index-{os.urandom(8).hex()}"
            try:
                listed = b"".join(line + b"\0" for line in lines)
                await git("update-index", "-z", "--add", "--index-info", stdin=listed, index=index)
                tree = await git.text("write-tree", index=index)
            finally:
                index.unlink(missing_ok=True)
            dates = {"GIT_AUTHOR_DATE": STAMP, "GIT_COMMITTER_DATE": STAMP}
            _, made = await git("commit-tree", tree, stdin=b"the given files", settings=dates)
            return made.decode().strip()

    async def use(self, run: str, commit: str) -> None:
        """Keep a commit as long as the run is kept."""
        await (await self._git())("update-ref", f"{RUNS}{run}", commit)

    async def release(self, run: str) -> None:
        """Remove the files that only this run used, and old uploads without a run."""
        git = Git(self.root / "git")
        if (git.directory / RUNS / run).is_file():
            await git("update-ref", "-d", f"{RUNS}{run}")
            await git("prune", f"--expire={UNUSED_FOR}")

    @property
    def place(self) -> str:
        """The repository, as a plan names it."""
        return str(self.root / "git")

    async def _check_uploads(self, git: Git, files: Mapping[str, str]) -> None:
        for path, blob in files.items():
            if not UPLOAD.fullmatch(blob):
                raise NotUploaded(f"{blob!r} is not the id of an upload.")
            code, kind = await git("cat-file", "-t", blob, ok=(0, 128))
            if code or kind.strip() != b"blob":
                raise NotUploaded(f"There is no upload {blob} for {path!r}. Upload the file again.")

    async def _git(self) -> Git:
        async with self._opening:
            if not (self.root / "git").is_dir():
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                aside = self.root / f".new-{os.urandom(8).hex()}"
                await make(aside)
                aside.rename(self.root / "git")
        return Git(self.root / "git")


def check_paths(paths: Mapping[str, str]) -> None:
    """Raise `NotUploaded` unless these are paths of files that one workspace can have."""
    if len(paths) > MOST:
        raise NotUploaded(f"A run may have {MOST} files at most.")
    for path in paths:
        parts = PurePosixPath(path).parts
        if (
            not parts
            or str(PurePosixPath(path)) != path
            or PurePosixPath(path).is_absolute()
            or ".." in parts
            or len(parts) > DEPTH
            or any(not _is_name(part) for part in parts)
        ):
            raise NotUploaded(f"{path!r} is not a valid path of a file in a workspace.")
        above = {str(folder) for folder in PurePosixPath(path).parents} & paths.keys()
        if above:
            raise NotUploaded(f"{above.pop()!r} cannot be a file and the folder of {path!r}.")


def _is_name(part: str) -> bool:
    try:
        name = part.encode()
    except UnicodeEncodeError:
        return False
    return (
        len(name) <= LONGEST_NAME
        and part.casefold() not in HIDDEN
        and not any(byte < 32 or byte == 127 for byte in name)
    )
