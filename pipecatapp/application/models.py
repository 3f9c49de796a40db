"""The models of this machine: the catalogue, downloads, and the model that is served."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import psutil
import structlog
from pydantic import BaseModel

from hearth.models.catalogue import (
    FALLBACK,
    Catalogue,
    Model,
    SpeechModel,
    count,
    shipped_catalogue,
)
from hearth.models.choice import remove, with_model
from hearth.models.errors import ModelError, PullCancelled
from hearth.models.listing import row_of, speech_row_of
from hearth.models.pull import pull, pull_speech
from hearth.models.store import ModelStore
from hearth.service.control import ControlFailed, Request, control_of, send
from hearth.service.state import StateDir
from pipecatapp.tools.cluster.directory import ExpertHealth

log = structlog.get_logger()

CLUSTER_COMMAND: Final = "./bootstrap.sh -i INVENTORY deploy_expert.yaml -e expert=EXPERT"
"""The command that installs a model on a cluster, after an expert lists it."""


class NotManaged(Exception):
    """Models of this instance cannot be changed here; the message states the remedy."""


class PullUnderWay(Exception):
    """The model is being downloaded."""


class PullView(BaseModel):
    """A download. `done` and `total` are bytes of the current `step`."""

    state: Literal["running", "failed", "cancelled"]
    step: str = ""
    done: int = 0
    total: int | None = None
    error: str = ""


class ModelView(BaseModel):
    """One model of the catalogue, with its state on this machine."""

    name: str
    kind: Literal["chat", "stt", "tts"]
    about: str
    parameters: str = ""
    active_parameters: str | None = None
    context: int | None = None
    tools: str = ""
    language: str = ""
    size_bytes: int | None
    ram_bytes: int
    license: str
    origin: str
    installed: bool
    fits: bool
    in_use: bool
    """It is the first model that the expert tries."""
    served_by: list[str]
    """The healthy experts that run it now, as the gateway reports."""
    pull: PullView | None


class Change(BaseModel):
    """The last change of the served model."""

    model: str
    state: Literal["loading", "ready", "failed"]
    error: str = ""


class ModelList(BaseModel):
    """The catalogue. `memory_bytes` and `disk_free_bytes` are those of this machine; on a cluster
    the memory is that of its largest machine, and the free space is null.
    """

    memory_bytes: int
    disk_free_bytes: int | None
    can_pull: bool
    can_use: bool
    command: str
    """Return the command to type if the page cannot change models; empty if it can."""
    demo: bool
    """The served model is the small one that every installation starts with."""
    suggested: str | None
    """The best model for this machine, when it is larger than the served one."""
    change: Change | None
    models: list[ModelView]


class Pull:
    """A download in a daemon thread, which does not keep the process from ending."""

    def __init__(self, name: str, work: Callable[["Pull"], object]) -> None:
        self.name, self.view = name, PullView(state="running")
        self._work, self._cancelled = work, threading.Event()
        self._interrupt: Callable[[], None] = lambda: None
        self.thread = threading.Thread(target=self._run, name=f"pull-{name}", daemon=True)

    def step(self, text: str) -> None:
        """Record the start of a part."""
        self.view = PullView(state="running", step=text)
        self._check()

    def moved(self, done: int, total: int | None) -> None:
        """Note how many bytes of this step are done."""
        self.view = self.view.model_copy(update={"done": done, "total": total})
        self._check()

    def pause(self, seconds: float) -> None:
        """Wait before the next try, or until the download is cancelled."""
        self._cancelled.wait(seconds)
        self._check()

    def reading(self, interrupt: Callable[[], None]) -> None:
        """Take the function that ends a read from a source that sends nothing."""
        self._interrupt = interrupt
        self._check()

    def cancel(self) -> None:
        """Stop the download now; the downloaded part is kept for the next time."""
        self._cancelled.set()
        self._interrupt()

    @property
    def running(self) -> bool:
        return self.view.state == "running"

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise PullCancelled(self.name)

    def _run(self) -> None:
        try:
            self._work(self)
        except PullCancelled:
            self.view = PullView(state="cancelled")
            log.info("model_pull_cancelled", model=self.name)
        except (ModelError, OSError) as error:
            self.view = PullView(state="failed", error=str(error))
            log.warning("model_pull_failed", model=self.name, reason=str(error))
        else:
            self.view = PullView(state="running", step="done")
            log.info("model_pulled", model=self.name)


class ModelService:
    """The models of one instance. `local` is False on a cluster, where Ansible distributes them.

    Methods that name a model raise `UnknownModel`; those that change something raise `NotManaged`.
    """

    def __init__(self, state: StateDir, catalogue: Path | None, *, local: bool) -> None:
        self._state, self._path, self._local = state, catalogue, local
        self._pulls: dict[str, Pull] = {}
        self._change: Change | None = None
        self._read: tuple[int, Catalogue] | None = None
        """The catalogue, and when its file was changed last."""

    def show(self, experts: list[ExpertHealth], memory_bytes: int | None = None) -> ModelList:
        """The catalogue with what is known of each model; `experts` are those of the gateway.

        `memory_bytes` is the memory of a cluster's largest machine. Blocks. Raises `ModelError`.
        """
        catalogue, control = self._catalogue(), self._control()
        own = psutil.virtual_memory().total
        memory = own if self._local or memory_bytes is None else memory_bytes
        views = [*self._chat(catalogue, experts, memory), *self._speech(catalogue)]
        served = next((view for view in views if view.in_use), None)
        best = catalogue.best_fit(memory)
        larger = best and (served is None or count(best.parameters) > count(served.parameters))
        return ModelList(
            memory_bytes=memory,
            disk_free_bytes=self._free() if self._local else None,
            can_pull=self._local,
            can_use=control is not None,
            command=self._command(control),
            demo=served is not None and served.name == FALLBACK,
            suggested=best.name if best and larger else None,
            change=self._change,
            models=views,
        )

    def pull(self, name: str) -> None:
        """Start a download. Raises `PullUnderWay`."""
        wanted = self._known(name)
        if (before := self._pulls.get(name)) is not None and before.thread.is_alive():
            raise PullUnderWay(f"{name} is being downloaded already.")
        store = ModelStore(self._state.models)

        def work(progress: Pull) -> object:
            if isinstance(wanted, SpeechModel):
                return pull_speech(wanted, store, progress)
            return pull(wanted, store, progress)

        self._pulls[name] = started = Pull(name, work)
        started.thread.start()

    def cancel(self, name: str) -> None:
        """End a download that is under way; one that has ended is forgotten."""
        self._known(name)
        if (under_way := self._pulls.get(name)) is None:
            return
        if under_way.thread.is_alive():
            under_way.cancel()
        else:
            del self._pulls[name]

    def use(self, name: str) -> None:
        """Start to serve a model with the running expert. Returns at once; the list shows the
        result.

        Raises `ModelMissing` if the model is not installed.
        """
        control = self._control()
        if control is None:
            raise NotManaged(self._command(None))
        if self._change is not None and self._change.state == "loading":
            raise NotManaged(f"{self._change.model} is being loaded. Try again when it is ready.")
        with_model(name, self._state, self._catalogue())
        self._change = Change(model=name, state="loading")
        threading.Thread(target=self._serve, args=(control, name), daemon=True).start()

    def remove(self, name: str) -> None:
        """Delete the files of a model. Raises `ModelInUse` and `PullUnderWay`."""
        self._known(name)
        if (under_way := self._pulls.get(name)) is not None and under_way.thread.is_alive():
            raise PullUnderWay(f"{name} is being downloaded. Cancel that first.")
        self._pulls.pop(name, None)
        remove(name, self._state, self._catalogue())

    def close(self) -> None:
        """Cancel every download."""
        for under_way in self._pulls.values():
            under_way.cancel()

    def _catalogue(self) -> Catalogue:
        """The catalogue, read again when its file has changed. Raises `CatalogueInvalid`."""
        path = self._path or shipped_catalogue()
        changed = path.stat().st_mtime_ns if path.exists() else 0
        if self._read is None or self._read[0] != changed:
            self._read = (changed, Catalogue.load(path))
        return self._read[1]

    def _known(self, name: str) -> Model | SpeechModel:
        if not self._local:
            raise NotManaged(f"On a cluster, models come with their expert: `{CLUSTER_COMMAND}`.")
        catalogue = self._catalogue()
        return catalogue.speech.get(name) or catalogue[name]

    def _serve(self, control: Path, name: str) -> None:
        try:
            send(control, Request(action="serve", name=name))
        except ControlFailed as error:
            self._change = Change(model=name, state="failed", error=str(error))
            log.warning("model_not_served", model=name, reason=str(error))
        else:
            self._change = Change(model=name, state="ready")

    def _control(self) -> Path | None:
        """The socket of the `hearth up` that runs this instance; None without one."""
        return control_of(self._state) if self._local else None

    def _command(self, control: Path | None) -> str:
        if not self._local:
            return CLUSTER_COMMAND
        return "" if control is not None else "hearth models use MODEL"

    def _chat(
        self, catalogue: Catalogue, experts: list[ExpertHealth], memory: int
    ) -> list[ModelView]:
        views = []
        for model in catalogue.models.values():
            served_by = [one.name for one in experts if one.healthy and _runs(one, model.name)]
            row = row_of(model, self._state)
            row |= {"fits": model.fits(memory), "kind": "chat", "served_by": served_by}
            if not self._local:
                row |= {"installed": bool(served_by), "in_use": bool(served_by)}
            views.append(ModelView(**_fields(row), pull=self._pull(model.name)))
        return views

    def _speech(self, catalogue: Catalogue) -> list[ModelView]:
        if not self._local:
            return []
        memory = psutil.virtual_memory().total
        rows = (speech_row_of(model, self._state) for model in catalogue.speech.values())
        return [
            ModelView(
                **_fields(row),
                kind=row["duty"],
                fits=row["ram_bytes"] <= memory * 3 // 4,
                in_use=False,
                served_by=[],
                pull=self._pull(row["name"]),
            )
            for row in rows
        ]

    def _pull(self, name: str) -> PullView | None:
        """Return the state of a download; a finished one is shown as an installed model."""
        under_way = self._pulls.get(name)
        if under_way is None or (under_way.running and not under_way.thread.is_alive()):
            return None
        return under_way.view

    def _free(self) -> int:
        existing = next(
            folder for folder in (self._state.models, self._state.root) if folder.exists()
        )
        return shutil.disk_usage(existing).free


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in ModelView.model_fields}


def _runs(expert: ExpertHealth, model: str) -> bool:
    """Whether one of its healthy servers runs the model."""
    places = [place.model for place in expert.instances if place.healthy] or [expert.model]
    return model in places
