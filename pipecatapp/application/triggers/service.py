"""Stores triggers, and starts their runs: each delivery once, and not more than allowed."""

import asyncio
import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import uuid4

import structlog
from pydantic import BaseModel

from pipecatapp.application.runs import Document, RunService
from pipecatapp.application.triggers.definition import (
    ID,
    InvalidTrigger,
    TriggerSettings,
    UnknownTrigger,
    Webhook,
    read_trigger,
    write_trigger,
)
from pipecatapp.application.triggers.signatures import (
    SECRET_HEADERS,
    check_signature,
    delivery_id,
    new_secret,
)
from pipecatapp.records.secrets import Secrets
from pipecatapp.workflow import InvalidInputs, Status
from pipecatapp.workflow.expressions import ExpressionError, render

log = structlog.get_logger()

CALLER: Final = "trigger/"
MINUTE: Final = 60.0
_LAST_RUNS: Final = f"""SELECT caller, id, status, max(started) AS started FROM run
    WHERE caller LIKE '{CALLER}%' GROUP BY caller"""


class TooManyDeliveries(Exception):
    """The trigger has started as many runs in this minute as it may; `seconds` until the next."""

    def __init__(self, id: str, limit: int, seconds: float) -> None:
        super().__init__(f"The trigger {id!r} starts {limit} runs in a minute at most.")
        self.seconds = seconds


class WrongDelivery(ValueError):
    """The body of a delivery cannot be read."""


class Trigger(BaseModel):
    """The current state of a trigger."""

    id: str
    settings: TriggerSettings | None
    """None for a file that is not valid; `error` says why."""
    run: str | None = None
    """The run that was started last."""
    status: Status | None = None
    started: str | None = None
    error: str | None = None
    """Why the last delivery or file started no run."""


class MadeTrigger(Trigger):
    """A trigger that was stored now."""

    secret: str | None = None
    """The secret that was made for it; it is not shown again."""


class StartedRun(BaseModel):
    """The run of a delivery; `repeated` if an earlier delivery with the same id had started it."""

    run: str
    repeated: bool = False


@dataclass(frozen=True)
class Delivery:
    """A request to `/hooks/<id>`; names of headers are lower case."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class TriggerService:
    """The triggers of an instance: files in `folder`, read at each use."""

    def __init__(
        self,
        folder: Path,
        runs: RunService,
        secrets: Secrets,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._runs, self._secrets, self._clock = folder, runs, secrets, clock
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._starts: dict[str, deque[float]] = defaultdict(deque)
        self._errors: dict[str, str] = {}

    def all(self) -> list[Trigger]:
        """Return every trigger by name, also files that are not valid."""
        last = {row["caller"]: row for row in self._runs.engine.ledger.read.rows(_LAST_RUNS)}
        names = sorted(file.stem for file in self._folder.glob("[!.]*.yaml"))
        return [self._trigger(name, last.get(CALLER + name)) for name in names]

    def get(self, id: str) -> Trigger:
        """Return one; raises `UnknownTrigger`."""
        for trigger in self.all():
            if trigger.id == id:
                return trigger
        raise UnknownTrigger(f"There is no trigger {id!r}.")

    async def put(self, id: str, settings: TriggerSettings) -> MadeTrigger:
        """Store a trigger, in the place of one that is there.

        Raises `InvalidTrigger`, and what `RunService.known` raises for its workflow.
        """
        self._check(settings)
        secret = None
        if settings.webhook is not None and not settings.webhook.secret:
            settings, secret = self._with_secret(id, settings.webhook, settings)
        await asyncio.to_thread(write_trigger, self._file(id), settings)
        self._errors.pop(id, None)
        return MadeTrigger(**self.get(id).model_dump(), secret=secret)

    async def pause(self, id: str, *, paused: bool) -> Trigger:
        """Start no more runs, or again; raises `UnknownTrigger` and `InvalidTrigger`."""
        settings = self.settings(id).model_copy(update={"paused": paused})
        await asyncio.to_thread(write_trigger, self._file(id), settings)
        return self.get(id)

    def remove(self, id: str) -> None:
        """Remove a trigger and the secret that was made for it; its runs stay."""
        if not self._file(id).exists():
            raise UnknownTrigger(f"There is no trigger {id!r}.")
        self._file(id).unlink()
        self._errors.pop(id, None)
        if (made := _secret_name(id)) in self._secrets.names():
            self._secrets.remove(made)

    def settings(self, id: str) -> TriggerSettings:
        """Return the settings of one; raises `UnknownTrigger` and `InvalidTrigger`."""
        try:
            return read_trigger(self._file(id))
        except FileNotFoundError as error:
            raise UnknownTrigger(f"There is no trigger {id!r}.") from error
        except OSError as error:
            raise InvalidTrigger(f"{self._file(id)} cannot be read: {error.strerror}.") from error

    async def receive(self, id: str, delivery: Delivery) -> StartedRun:
        """Start the run of a delivery.

        Raises `UnknownTrigger`, also for a paused one and for an invalid file, because senders
        must not see our paths; `NotSigned`, `TooManyDeliveries`, `WrongDelivery`,
        `SecretMissing`, and what `RunService.start` raises.
        """
        try:
            settings = self.settings(id)
        except InvalidTrigger as error:
            raise UnknownTrigger(f"There is no active webhook {id!r}.") from error
        if (webhook := settings.webhook) is None or settings.paused:
            raise UnknownTrigger(f"There is no active webhook {id!r}.")
        secret = self._secrets.value(webhook.secret or f"kept:{_secret_name(id)}")
        check_signature(webhook.signature, secret, delivery.headers, delivery.body, self._clock())
        names = {
            "body": _content(delivery),
            "headers": {k: v for k, v in delivery.headers.items() if k not in SECRET_HEADERS},
            "query": dict(delivery.query),
        }
        return await self.start(id, settings, names, delivery_id(delivery.headers))

    async def start(
        self,
        id: str,
        settings: TriggerSettings,
        names: Mapping[str, Any],
        item: str | None,
        files: Mapping[str, str] | None = None,
    ) -> StartedRun:
        """Start a run with inputs from `names`, once for each `item`.

        The run and the note that its item is handled are one transaction. An item whose run fails
        may start another one. Raises as `receive`.
        """
        async with self._locks[id]:
            if item is not None and (run := self.handled(id, item)) is not None:
                return StartedRun(run=run, repeated=True)
            self._check_limit(id, settings.per_minute)
            try:
                run = await self._runs.start(
                    Document(workflow=settings.workflow),
                    _inputs(settings, names),
                    caller=CALLER + id,
                    beside=lambda run: [_handled(id, item or uuid4().hex, run)],
                    files=files,
                )
            except Exception as error:
                self.failed(id, str(error))
                raise
            self._starts[id].append(self._clock())
        self._errors.pop(id, None)
        log.info("trigger_started", trigger=id, run=run)
        return StartedRun(run=run)

    def failed(self, id: str, reason: str) -> None:
        """Note why a trigger started no run, until it starts one."""
        if self._errors.get(id) != reason:
            log.warning("trigger_not_started", trigger=id, reason=reason)
        self._errors[id] = reason[:1000]

    def handled(self, id: str, item: str) -> str | None:
        """Return the run that an item has started; None if there is none that did not fail."""
        sql = "SELECT run FROM handled WHERE memory = ? AND item = ?"
        rows = self._runs.engine.ledger.read.rows(sql, (CALLER + id, item))
        return rows[0]["run"] if rows else None

    def _check(self, settings: TriggerSettings) -> None:
        body = self._runs.engine.plan(self._runs.known(settings.workflow)).body
        if unknown := [name for name in settings.inputs if name not in body.inputs]:
            known = ", ".join(body.inputs) or "none"
            raise InvalidTrigger(
                f"{settings.workflow} has no input {unknown[0]!r}. Its inputs: {known}"
            )
        for name, wanted in body.inputs.items():
            if wanted.required and name not in settings.inputs:
                raise InvalidTrigger(f"The input {name!r} of {settings.workflow} has no value.")
        if (folder := settings.folder) is not None and not folder.path.is_dir():
            raise InvalidTrigger(f"{folder.path} is not a folder on the machine of the agent.")

    def _with_secret(
        self, id: str, webhook: Webhook, settings: TriggerSettings
    ) -> tuple[TriggerSettings, str]:
        """Make a secret, and return the settings that refer to it."""
        name, secret = _secret_name(id), new_secret(webhook.signature)
        self._secrets.keep(name, secret)
        named = webhook.model_copy(update={"secret": f"kept:{name}"})
        return settings.model_copy(update={"webhook": named}), secret

    def _check_limit(self, id: str, limit: int) -> None:
        starts, now = self._starts[id], self._clock()
        while starts and starts[0] <= now - MINUTE:
            starts.popleft()
        if len(starts) >= limit:
            raise TooManyDeliveries(id, limit, starts[0] + MINUTE - now)

    def _trigger(self, id: str, last: Any) -> Trigger:
        settings, error = None, self._errors.get(id)
        try:
            settings = self.settings(id)
        except (InvalidTrigger, UnknownTrigger) as wrong:
            error = str(wrong)
        run = {name: last[of] for name, of in _RUN.items()} if last else {}
        return Trigger(id=id, settings=settings, error=error, **run)

    def _file(self, id: str) -> Path:
        if not re.match(ID, id):
            raise UnknownTrigger(f"There is no trigger {id!r}.")
        return self._folder / f"{id}.yaml"


_RUN: Final = {"run": "id", "status": "status", "started": "started"}


def _secret_name(id: str) -> str:
    return f"trigger-{id}"


def _handled(id: str, item: str, run: str) -> tuple[str, tuple[Any, ...]]:
    insert = "INSERT INTO handled (memory, item, run) VALUES (?, ?, ?)"
    return insert, (CALLER + id, item, run)


def _inputs(settings: TriggerSettings, names: Mapping[str, Any]) -> dict[str, Any]:
    try:
        inputs: dict[str, Any] = render(settings.inputs, names)
    except ExpressionError as error:
        raise InvalidInputs(
            f"The delivery does not fit the inputs of the trigger: {error}"
        ) from error
    return inputs


def _content(delivery: Delivery) -> Any:
    """Return the body: JSON as its value, a form as an object, anything else as text."""
    kind = delivery.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        text = delivery.body.decode()
    except UnicodeDecodeError as error:
        raise WrongDelivery("The body is not text in UTF-8.") from error
    if kind == "application/x-www-form-urlencoded":
        return dict(parse_qsl(text, keep_blank_values=True))
    if kind != "application/json" and not kind.endswith("+json"):
        return text
    try:
        return json.loads(text, parse_constant=_no_number) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise WrongDelivery(f"The body is not valid JSON: {error}.") from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")
