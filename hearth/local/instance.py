"""Prepare an instance, supervise it until it stops, and record it in its state directory."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hearth.files import write_atomic
from hearth.local.checks import check_ports, check_room, disk_full, make_usable
from hearth.local.control import Controller, serving
from hearth.local.embedded import ExpertPlan
from hearth.local.environment import command_name
from hearth.local.errors import AlreadyRuns
from hearth.local.options import Options
from hearth.local.process.keeper import Audience
from hearth.local.process.service import Service
from hearth.local.process.supervisor import StopRequest, Supervisor
from hearth.local.state.keys import ensure_key
from hearth.local.state.lock import InstanceLock, LockHeld, lock_holder
from hearth.local.state.migrations import Migrated, bring_up_to_date
from hearth.models.choice import chosen
from hearth.process.restarts import RestartPolicy
from hearth.service.names import PIPECATAPP
from hearth.service.state import Instance, RunningService, StateDir, read_instance

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def prepared(options: Options) -> Iterator[Migrated | None]:
    """Lock the state directory, migrate it, and check ports, disk space and keys.

    Yields the result of the migration, or None. At the end of the block the record of the running
    instance is removed. Raises the errors of `hearth.local.errors`.
    """
    state = options.state
    make_usable(state.root)
    try:
        with InstanceLock(state), _disk_full_reported(state):
            state.instance_file.unlink(missing_ok=True)
            migrated = bring_up_to_date(state)
            check_ports(options.ports, options.port_base)
            check_room(state.root)
            for key_file in (state.key_file, state.service_key_file):
                ensure_key(key_file)
            state.logs.mkdir(mode=0o700, exist_ok=True)
            try:
                yield migrated
            finally:
                state.instance_file.unlink(missing_ok=True)
    except LockHeld as error:
        stop = f"{command_name()} down{options.state_option}"
        raise AlreadyRuns(state.root, where=_who_runs(state), stop=stop) from error


async def supervise(
    options: Options,
    services: Sequence[Service],
    audience: Audience,
    on_ready: Callable[[Instance], None],
    *,
    policy: RestartPolicy,
    experts: ExpertPlan | None = None,
) -> bool:
    """Run the services until a signal; returns whether all of them were healthy at some time.

    `experts` describes how the expert is restarted with another model. The first SIGINT, SIGTERM or
    SIGHUP stops gracefully, the second immediately.
    """
    stop, loop = StopRequest(), asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    started = datetime.now(UTC)
    supervisor = Supervisor(
        services,
        folder=options.state.root,
        logs=options.state.logs,
        audience=audience,
        policy=policy,
    )

    controller = Controller(supervisor, experts, chosen(options.state))

    def record(control: Path) -> Instance:
        instance = _instance(options, started, supervisor.running(), control)
        write_instance(options.state, instance)
        return instance

    def record_again(control: Path) -> None:
        try:
            record(control)
        except OSError as error:
            audience.line(PIPECATAPP, f"hearth: instance.json is not written: {error.strerror}")

    async with serving(controller) as control:
        return await supervisor.run(
            stop,
            on_ready=lambda: on_ready(record(control)),
            on_restart=lambda: record_again(control),
        )


def write_instance(state: StateDir, instance: Instance) -> None:
    """Replace `instance.json` in one step."""
    write_atomic(state.instance_file, instance.model_dump_json(indent=2) + "\n", mode=0o600)


def _instance(
    options: Options, started: datetime, services: list[RunningService], control: Path
) -> Instance:
    return Instance(
        pid=os.getpid(),
        started=started,
        web=options.web,
        api=options.api,
        key_file=options.state.key_file,
        services=services,
        control=control,
    )


def _who_runs(state: StateDir) -> str:
    instance = read_instance(state)
    if instance is not None:
        return f"{instance.web}, process {instance.pid}"
    return f"process {lock_holder(state)}, which is starting or stopping"


@contextmanager
def _disk_full_reported(state: StateDir) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise disk_full(state.root) from error
