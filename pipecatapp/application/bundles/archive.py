"""The file of a bundle: a ZIP archive with its documents, a manifest and its signature.

    manifest.json    kind, id and SHA-256 of each document
    signature.json   the signature of the bytes of manifest.json
    workflows/x.yaml, prompts/y.md, …

Nothing is unpacked to the disk: a document is found by its kind and id, not by a name in the
archive.
"""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import BaseModel, Field, ValidationError

from hearth.service.version import hearth_version
from pipecatapp.application.bundles.signing import Keys, WrongSignature, verified

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "signature.json"
MOST: Final = 1000
"""Documents of a bundle."""
LARGEST: Final = 1 << 20
"""Bytes of one document, and of the manifest."""
STAMP: Final = (2000, 1, 1, 0, 0, 0)
"""The time of every file, so that the same documents give the same archive."""

Kind = Literal["project", "prompt", "layer", "workflow", "task"]
PLACES: Final[Mapping[Kind, str]] = {
    "project": "projects/{}.yaml",
    "prompt": "prompts/{}.md",
    "layer": "layers/{}.yaml",
    "workflow": "workflows/{}.yaml",
    "task": "tasks/{}.yaml",
}
"""Name in the archive by kind, in the order in which documents need each other."""


class InvalidBundle(ValueError):
    """The file is not a bundle, is damaged or too large; the message says which."""


class BundledDocument(BaseModel):
    """One document of a bundle."""

    kind: Kind
    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=200)
    sha256: str = ""

    @property
    def name(self) -> str:
        """Its name for people: `workflow/report`."""
        return f"{self.kind}/{self.id}"

    @property
    def place(self) -> str:
        return PLACES[self.kind].format(self.id)


class Manifest(BaseModel):
    """The documents of a bundle, and the version of Hearth that wrote it."""

    format: int = FORMAT
    hearth: str
    documents: list[BundledDocument] = Field(min_length=1, max_length=MOST)


class Bundle(BaseModel):
    """A bundle whose signature and digests are right; `key` has signed it."""

    key: str
    manifest: Manifest
    texts: dict[str, str]
    """The text of each document by its name."""

    def of(self, kind: Kind) -> Iterator[tuple[BundledDocument, str]]:
        """Yield the documents of a kind with their texts."""
        return ((one, self.texts[one.name]) for one in self.manifest.documents if one.kind == kind)


def write_bundle(texts: Mapping[tuple[Kind, str], str], keys: Keys) -> bytes:
    """Return the archive of documents by kind and id, signed with the key of this instance."""
    documents = [
        BundledDocument(kind=kind, id=id, sha256=_digest(text.encode()))
        for (kind, id), text in texts.items()
    ]
    manifest = Manifest(hearth=hearth_version(), documents=documents)
    content = manifest.model_dump_json(indent=1).encode()
    files = {
        MANIFEST: content,
        SIGNATURE: keys.sign(content).model_dump_json(indent=1).encode(),
        **{one.place: texts[one.kind, one.id].encode() for one in documents},
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(zipfile.ZipInfo(name, STAMP), data, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def read_bundle(archive: bytes) -> Bundle:
    """Return a checked bundle; raises `InvalidBundle` and `WrongSignature`."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            content = _read(opened, MANIFEST)
            key = verified(_read(opened, SIGNATURE), content)
            manifest = Manifest.model_validate_json(content)
            if manifest.format != FORMAT:
                raise InvalidBundle("A newer Hearth wrote this bundle. Update this instance first.")
            texts = {one.name: _document(opened, one) for one in manifest.documents}
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise InvalidBundle("The file is not a bundle of Hearth, or is damaged.") from error
    except ValidationError as error:
        raise InvalidBundle("The manifest of the bundle is not valid.") from error
    if len(texts) != len(manifest.documents):
        raise InvalidBundle("The bundle has two documents of the same kind and id.")
    return Bundle(key=key, manifest=manifest, texts=texts)


def _document(opened: zipfile.ZipFile, document: BundledDocument) -> str:
    data = _read(opened, document.place)
    if _digest(data) != document.sha256:
        raise WrongSignature(
            f"{document.name} was changed after the bundle was signed. Ask its sender for it again."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidBundle(f"{document.name} is not text in UTF-8.") from error


def _read(opened: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of the archive, at most `LARGEST` bytes, whatever its head says."""
    try:
        with opened.open(name) as file:
            data = file.read(LARGEST + 1)
    except (KeyError, RuntimeError, zlib.error) as error:
        raise InvalidBundle(f"The bundle has no readable {name}.") from error
    if len(data) > LARGEST:
        raise InvalidBundle(f"{name} in the bundle is larger than {LARGEST} bytes.")
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
