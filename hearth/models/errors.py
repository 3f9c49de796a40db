"""Errors of the catalogue, and of downloading and verifying model files.

ModelError
├── CatalogueInvalid       models.yaml is invalid
├── UnknownModel           the catalogue has no model of that name
├── ModelMissing           the model is not installed
├── ModelDamaged           the sha256 of a file is wrong
├── ChoiceInvalid          expert.json is invalid
├── EvaluationsInvalid     evaluations.json is invalid
├── NoInstance             Hearth is not running, which measuring a model needs
├── EvaluationFailed       the run that measures a model failed
├── ModelInUse             the expert uses the model
├── DiskFull               the disk is full
├── StoreUnusable          the folder of the models cannot be written
└── FetchFailed            a download failed
    ├── PullCancelled      a user cancelled it
    ├── SourceUnreachable  the source cannot be reached: network, proxy or host name
    └── SourceGone         the source refuses the file or does not have it
"""

from difflib import get_close_matches
from pathlib import Path


class ModelError(Exception):
    """Base of every error of this package.

    `str(error)` is one line for users: the fact, then the hint. Without `hint`, that is the first
    paragraph of the class docstring.
    """

    def __init__(self, fact: str, hint: str | None = None) -> None:
        self.fact = fact
        if hint is None:
            hint = " ".join((type(self).__doc__ or "").partition("\n\n")[0].split())
        self.hint = hint
        super().__init__(f"{fact} {hint}".rstrip())


class CatalogueInvalid(ModelError):
    """Correct that line of the catalogue."""

    def __init__(self, file: Path, line: int, problem: str) -> None:
        self.file, self.line, self.problem = file, line, problem
        super().__init__(f"{file}:{line}: {problem}")


class UnknownModel(ModelError):
    """`hearth models list` shows the names."""

    def __init__(self, name: str, *, known: list[str]) -> None:
        self.name = name
        near = get_close_matches(name, known, n=1)
        question = f" Did you mean {near[0]}?" if near else ""
        super().__init__(f"The catalogue has no model {name!r}.{question}")


class ModelMissing(ModelError):
    """Get the model with `hearth models pull NAME`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is not pulled.", f"Get it with `hearth models pull {name}`.")


class ModelDamaged(ModelError):
    """Download the file again with `hearth models pull NAME`."""

    def __init__(self, name: str, what: Path | str) -> None:
        self.name = name
        super().__init__(
            f"{what} is damaged: its sha256 is not the one that the catalogue has for {name}.",
            f"Download it again with `hearth models pull {name}`.",
        )


class EvaluationsInvalid(ModelError):
    """Remove the file and evaluate the models again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__(f"{file} does not contain valid evaluations of models.")


class NoInstance(ModelError):
    """Start it with `hearth up`."""

    def __init__(self) -> None:
        super().__init__("Hearth is not running.")


class EvaluationFailed(ModelError):
    """See `hearth runs show`."""


class ModelInUse(ModelError):
    """Choose another model first with `hearth models use NAME`."""

    def __init__(self, name: str, models: list[str]) -> None:
        self.name, self.models = name, models
        super().__init__(f"{name} is in use: the expert uses {', or else '.join(models)}.")


class ChoiceInvalid(ModelError):
    """Select a model again with `hearth models use NAME`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__(f"{file} is not a valid list of models.")


class DiskFull(ModelError):
    """Free some space, or choose another place with `--state-dir`, then pull again."""

    def __init__(self, place: Path, *, needed: int | None = None, free: int | None = None) -> None:
        self.place, self.needed, self.free = place, needed, free
        sizes = ""
        if needed is not None and free is not None:
            sizes = f": {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free"
        super().__init__(f"The disk of {place} is too full for the model{sizes}.")


class StoreUnusable(ModelError):
    """Check the owner of the state directory, or use another one with `--state-dir`."""

    def __init__(self, place: Path, error: OSError) -> None:
        self.place = place
        super().__init__(f"{error.filename or place} cannot be used: {error.strerror}.")


class FetchFailed(ModelError):
    """Pull again; the download resumes if the source allows it."""


class PullCancelled(FetchFailed):
    """Pull again; the download resumes if the source allows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"The download of {name} was cancelled.")


class SourceUnreachable(FetchFailed):
    """Check the network and the proxy, then pull again."""


class SourceGone(FetchFailed):
    """Choose another model, or correct the source in the catalogue."""
