"""The output of `hearth up`: progress of the start, addresses, and logs with a prefix each."""

import os
import sys
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


class Terminal(Console):
    """A console that stops writing when its output is closed, as in `hearth up | head`."""

    def on_broken_pipe(self) -> None:
        """Continue without output; Rich would end the program."""
        self.quiet = True
        # The interpreter flushes stdout at exit, so its descriptor must stay valid.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Screen:
    """The live output of `hearth up` on a terminal, or plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._conditions: dict[str, str] = {}
        self._colours: dict[str, str] = {}
        self._status: Status | None = None
        self._phase, self._streams = "Starting", False

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status(self._phase)
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end_status()

    def condition(self, service: str, detail: str) -> None:
        """Show the state of a service while all of them start or stop."""
        if self._conditions.get(service) == detail:
            return
        self._conditions[service] = detail
        if self._status is not None:
            words = (f"{name} ({state})" for name, state in self._conditions.items())
            self._status.update(Text(f"{self._phase}: {', '.join(words)}"))
        else:
            self.say(f"{service}: {detail}")

    def line(self, service: str, text: str) -> None:
        """Show a line of a service's log; ignored until all services are ready."""
        if self._streams:
            self._print(self._prefixed(service, text))

    def say(self, text: str) -> None:
        """Show a line of Hearth itself, unwrapped, so that it can be copied."""
        self._print(Text(text))

    def ready(self, *lines: str) -> None:
        """Show the lines, and then the logs: all services are healthy."""
        self._end_status()
        for line in lines:
            self.say(line)
        self._phase, self._streams = "Stopping", True
        self._conditions.clear()

    def go_dark(self) -> None:
        """Show nothing any more, because the terminal belongs to the user's shell again."""
        self._end_status()
        self._streams = False
        self.console.quiet = True

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
        self._status = None

    def _prefixed(self, service: str, text: str) -> Text:
        colour = self._colours.setdefault(service, COLOURS[len(self._colours) % len(COLOURS)])
        width = max(map(len, self._colours))
        return Text.assemble((f"{service:<{width}} | ", colour), Text.from_ansi(text))

    def _print(self, text: Text) -> None:
        try:
            self.console.print(text, soft_wrap=True)
        except OSError:
            # The terminal was closed; its SIGHUP follows.
            self.console.quiet = True
