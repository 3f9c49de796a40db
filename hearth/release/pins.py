"""The pinned archives of others: `group_vars/all/artifacts.yaml`, and its updater."""

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
    """The text at an address; raises `ReleaseError` with the reason."""
    try:
        answer = httpx2.get(url, follow_redirects=True, timeout=30)
        answer.raise_for_status()
    except httpx2.HTTPError as error:
        raise ReleaseError(f"{url} cannot be read: {error}") from error
    return answer.text


def pin(file: Path, name: str, version: str, *, get: Fetch = fetch) -> dict[str, str]:
    """Write the entry `name` for `version`, with the checksums that its vendor publishes.

    Addresses are those of the entry with the one version number replaced by the other. Returns
    architecture -> sha256; nothing is written unless each architecture has one.
    """
    yaml = YAML()
    yaml.width = 200
    yaml.indent(mapping=2, sequence=4, offset=2)
    document: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"))
    entries = document["artifacts"]
    if name not in entries:
        raise ArtifactUnknown(name, known=list(entries))
    entry = entries[name]
    moved = _Move(str(entry["version"]), version)
    source = moved(entry["checksums"])
    published = checksums(get(source))
    digests: dict[str, str] = {}
    for arch, archive in entry["archives"].items():
        archive["url"] = moved(archive["url"])
        if "member" in archive:
            archive["member"] = moved(archive["member"])
        wanted = Path(urlsplit(archive["url"]).path).name
        if wanted not in published:
            raise ChecksumMissing(wanted, source)
        archive["sha256"] = digests[arch] = published[wanted]
    entry["version"], entry["checksums"] = version, source
    if "member" in entry:
        entry["member"] = moved(entry["member"])
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(document, stream)
    return digests


class _Move:
    """Replaces one version number by another in addresses."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __call__(self, text: str) -> str:
        return text.replace(self.old, self.new)


def checksums(text: str) -> dict[str, str]:
    """File name -> sha256 of a list as `sha256sum` writes it."""
    rows = (line.split() for line in text.splitlines())
    return {
        row[1].lstrip("*"): row[0] for row in rows if len(row) == 2 and SHA256.fullmatch(row[0])
    }
