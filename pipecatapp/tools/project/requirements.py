"""Read what a Python project needs from its manifests."""

import configparser
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

TESTING: Final = ("test", "tests", "testing", "dev", "develop", "development")
"""Names of optional groups that tests need."""
FILES: Final = (
    "requirements.txt",
    "requirements-test.txt",
    "requirements-dev.txt",
    "test-requirements.txt",
    "dev-requirements.txt",
    "requirements/test.txt",
    "requirements/dev.txt",
    "tests/requirements.txt",
)
LARGEST: Final = 1 << 20


def requirements_of(root: Path) -> list[str]:
    """List the packages that the project and its tests need on this machine, without the project.

    Packages by address or path are left out, and so are manifests that do not parse.
    """
    manifest = _toml(root / "pyproject.toml")
    names = {canonicalize_name(str(manifest.get("project", {}).get("name", "")))}
    found: dict[str, str] = {}
    for line in [*_pyproject(manifest), *_setup_cfg(root / "setup.cfg"), *_files(root)]:
        try:
            one = Requirement(line)
        except InvalidRequirement:
            continue
        wanted = one.url is None and (one.marker is None or one.marker.evaluate({"extra": ""}))
        name = canonicalize_name(one.name)
        if wanted and name not in names:
            extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
            found.setdefault(name, f"{name}{extras}{one.specifier}")
    return sorted(found.values())


def _toml(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _pyproject(manifest: dict[str, Any]) -> Iterator[str]:
    project = manifest.get("project", {})
    yield from _texts(project.get("dependencies", []))
    for groups in (project.get("optional-dependencies", {}), manifest.get("dependency-groups", {})):
        for name in TESTING:
            yield from _texts(groups.get(name, []))


def _setup_cfg(path: Path) -> Iterator[str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(_text(path))
    except configparser.Error:
        return
    yield from parser.get("options", "install_requires", fallback="").splitlines()
    for name in TESTING:
        yield from parser.get("options.extras_require", name, fallback="").splitlines()


def _files(root: Path) -> Iterator[str]:
    for name in FILES:
        for line in _text(root / name).splitlines():
            yield line.partition(" #")[0].strip()


def _texts(values: Iterable[Any]) -> Iterator[str]:
    yield from (value for value in values if isinstance(value, str))


def _text(path: Path) -> str:
    """The text of a regular file; empty where there is none."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
