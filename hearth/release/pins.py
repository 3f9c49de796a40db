"""Update the versions and checksums of third-party programs in `group_vars/all/artifacts.yaml`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from ruamel.yaml import YAML

from hearth.release.errors import ArtifactUnknown, ChecksumMissing, ReleaseError

Fetch = Callable[[str], str]
SHA256: Final = re.compile(r"[0-9a-f]{64}")


def fetch(url: str) -> str:
    """Return the text at a URL; raises `ReleaseError` if it cannot be downloaded."""
    try:
        response = httpx2.get(url, follow_redirects=True, timeout=30)
        response.raise_for_status()
    except httpx2.HTTPError as error:
        raise ReleaseError(f"{url} cannot be downloaded: {error}") from error
    return response.text


def pin(file: Path, name: str, version: str, *, get: Fetch = fetch) -> dict[str, str]:
    """Change the version of an entry of artifacts.yaml.

    URLs get the new version number in place of the old one. The file is written only if there is a
    checksum for every architecture.

    Args:
        file: Path of artifacts.yaml.
        name: Name of the entry, such as `nomad`.
        version: The new version.
        get: Function that downloads a text.

    Returns:
        Architecture -> sha256 of its archive.

    Raises:
        ArtifactUnknown: There is no such entry.
        ChecksumMissing: The vendor's list has no checksum for an archive.
    """
    yaml = YAML()
    yaml.width = 200
    yaml.indent(mapping=2, sequence=4, offset=2)
    document: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"))
    entries = document["artifacts"]
    if name not in entries:
        raise ArtifactUnknown(name, known=list(entries))
    entry = entries[name]
    updated = _Replacement(str(entry["version"]), version)
    source = updated(entry["checksums"])
    published = checksums(get(source))
    digests: dict[str, str] = {}
    for arch, archive in entry["archives"].items():
        archive["url"] = updated(archive["url"])
        if "member" in archive:
            archive["member"] = updated(archive["member"])
        file_name = Path(urlsplit(archive["url"]).path).name
        if file_name not in published:
            raise ChecksumMissing(file_name, source)
        archive["sha256"] = digests[arch] = published[file_name]
    entry["version"], entry["checksums"] = version, source
    if "member" in entry:
        entry["member"] = updated(entry["member"])
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(document, stream)
    return digests


class _Replacement:
    """Replace one version number by another in a text."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __call__(self, text: str) -> str:
        return text.replace(self.old, self.new)


def checksums(text: str) -> dict[str, str]:
    """Parse a list in the format of `sha256sum`; return file name -> sha256."""
    rows = (line.split() for line in text.splitlines())
    return {
        row[1].lstrip("*"): row[0] for row in rows if len(row) == 2 and SHA256.fullmatch(row[0])
    }
