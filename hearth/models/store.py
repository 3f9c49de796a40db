"""The store of verified model files.

`<root>/<name>/<file>` exists only after its sha256 was verified. A stamp in the same folder records
the verification: while size and time of the file equal those of the stamp, the file is not read
again.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from hearth.files import move_atomic, write_atomic
from hearth.models.catalogue import Pinned
from hearth.models.errors import DiskFull, ModelDamaged, ModelMissing
from hearth.models.progress import Progress, Silent

READ_BYTES = 1 << 20
SPARE_BYTES = 64 << 20
"""Free disk space that a pull leaves."""


class Stamp(BaseModel):
    """The digest, size and time of a file when it was verified."""

    sha256: str
    size: int
    mtime_ns: int


class ModelStore:
    """The model files of one instance, one folder for each model, created when first needed.

    An entry is a `Model`, or one file of a `SpeechModel`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, model: Pinned) -> Path:
        """Return the folder with the file, its stamp and partial downloads."""
        return self.root / model.name

    def path(self, model: Pinned) -> Path:
        """Return the path of the verified file, also if it is not installed yet."""
        return self.folder(model) / model.file

    def installed(self, model: Pinned) -> bool:
        """Return whether the file exists and is unchanged since it was verified.

        Compares only size and time, without reading the file.
        """
        path = self.path(model)
        try:
            stamp = Stamp.model_validate_json(self._stamp_path(model).read_bytes())
            current = path.stat()
        except (FileNotFoundError, ValidationError):
            return False
        verified = (stamp.sha256, stamp.size, stamp.mtime_ns)
        return verified == (model.sha256, current.st_size, current.st_mtime_ns)

    def verify(self, model: Pinned, progress: Progress | None = None) -> Path:
        """Read the whole file, compare its sha256, and renew its stamp.

        Raises `ModelMissing` or `ModelDamaged`. A file that was copied there by hand is accepted
        once it is verified.
        """
        path = self.path(model)
        if not path.is_file():
            raise ModelMissing(model.name)
        self._stamp_path(model).unlink(missing_ok=True)
        if sha256_of(path, progress or Silent()) != model.sha256:
            raise ModelDamaged(model.name, path)
        self._write_stamp(model, path)
        return path

    def ready(self, model: Pinned, progress: Progress | None = None) -> Path:
        """Return the path of a verified file; verify it first if necessary.

        Raises `ModelMissing` or `ModelDamaged`.
        """
        return self.path(model) if self.installed(model) else self.verify(model, progress)

    def place(self, model: Pinned, fetched: Path, progress: Progress) -> Path:
        """Verify a downloaded file and move it to its final path atomically.

        `fetched` is on the same file system (see `folder`). A damaged file is deleted, so that the
        next pull does not continue it, and `ModelDamaged` is raised.
        """
        if sha256_of(fetched, progress) != model.sha256:
            fetched.unlink()
            raise ModelDamaged(model.name, "The downloaded file (now deleted)")
        self._stamp_path(model).unlink(missing_ok=True)
        path = move_atomic(fetched, self.path(model))
        self._write_stamp(model, path)
        return path

    def remove(self, model: Pinned) -> bool:
        """Delete the file and its stamp and partial downloads; returns whether there were any."""
        if not self.folder(model).is_dir():
            return False
        with self.locked(model, Silent()):
            shutil.rmtree(self.folder(model))
        return True

    def need_room(self, size: int) -> None:
        """Raise `DiskFull` unless `size` and `SPARE_BYTES` are free."""
        self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free
        if free < size + SPARE_BYTES:
            raise DiskFull(self.root, needed=size + SPARE_BYTES, free=free)

    @contextmanager
    def locked(self, model: Pinned, progress: Progress) -> Iterator[None]:
        """Lock the folder of a model, so that two pulls of it run one after the other."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f".{model.name}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.step("waiting for another pull")
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.folder(model).mkdir(exist_ok=True)
            yield

    def _stamp_path(self, model: Pinned) -> Path:
        return self.folder(model) / f"{model.file}.verified.json"

    def _write_stamp(self, model: Pinned, path: Path) -> None:
        current = path.stat()
        stamp = Stamp(sha256=model.sha256, size=current.st_size, mtime_ns=current.st_mtime_ns)
        write_atomic(self._stamp_path(model), stamp.model_dump_json())


def sha256_of(path: Path, progress: Progress) -> str:
    """Read a file and return its SHA-256 as 64 hexadecimal digits."""
    progress.step("checking")
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb", buffering=0) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
            done += len(block)
            progress.moved(done, total)
    return digest.hexdigest()
