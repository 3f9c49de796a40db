"""`hearth up`: check, prepare, start, print the addresses, and run until it is stopped."""

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from hearth.local.commands.screen import Screen
from hearth.local.embedded import Plan, embedded
from hearth.local.environment import command_name
from hearth.local.instance import STOP_SIGNALS, prepared, supervise
from hearth.local.options import Options
from hearth.process.restarts import RestartPolicy
from hearth.service.settings import read_key
from hearth.service.state import Instance

INTERRUPTED = 130
"""Exit code of a start that was stopped before everything was healthy."""


def up(
    options: Options,
    console: Console,
    *,
    plan: Callable[[Options, Console], Plan] = embedded,
    let_go: Callable[[], None] | None = None,
) -> int:
    """Run an instance from start to stop and return the exit code.

    Args:
        options: How to run it.
        console: Receives progress, addresses and logs.
        plan: Returns the services to run.
        let_go: Called when all services are healthy; nothing is shown after that.

    Raises:
        LocalError: The instance cannot start or run.
        ModelError: A model is missing or damaged.
    """
    # Files of the instance are for their owner only.
    os.umask(0o077)
    with _signals_interrupt(), prepared(options) as migrated:
        screen = Screen(console)
        if migrated is not None:
            screen.say(
                f"The state directory was migrated from version {migrated.found} "
                f"({'; '.join(migrated.steps)}). A backup is in {migrated.backup}."
            )
        planned = plan(options, console)
        closing = "Ctrl-C stops it." if let_go is None else f"`{_stop(options)}` stops it."

        def show(instance: Instance) -> None:
            screen.ready(*_welcome(instance), *planned.hints, closing)
            if let_go is not None:
                screen.go_dark()
                let_go()

        with screen:
            was_ready = asyncio.run(
                supervise(
                    options,
                    planned.services,
                    screen,
                    show,
                    policy=RestartPolicy(),
                    experts=planned.experts,
                )
            )
        screen.say("Stopped." if was_ready else "Stopped before everything was ready.")
    return 0 if was_ready else INTERRUPTED


def _welcome(instance: Instance) -> list[str]:
    key = read_key(instance.key_file)
    return [
        "Hearth is running.",
        f"  Web page  {instance.web}",
        f"  API       {instance.api}",
        f"  Key       {key}  (stored in {instance.key_file})",
        f"  Try it    {curl_line(instance.api, key)}",
    ]


def curl_line(api: str, key: str) -> str:
    """Return a request to the agent as a command for the shell."""
    question = {"role": "user", "content": "Who are you?"}
    body = {"model": "agent", "max_tokens": 200, "messages": [question]}
    return shlex.join(
        [
            "curl", f"{api}/chat/completions",
            "-H", f"Authorization: Bearer {key}",
            "-H", "Content-Type: application/json",
            "-d", json.dumps(body),
        ]
    )  # fmt: skip


def _stop(options: Options) -> str:
    return f"{command_name()} down{options.state_option}"


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for every stop signal, until the services are supervised."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
