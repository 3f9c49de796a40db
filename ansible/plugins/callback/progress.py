"""What a run does, by role and machine; with `-v` Ansible's own output."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ansible.playbook.block import Block
from ansible.plugins.callback.default import CallbackModule as Default

from ansible import constants

DOCUMENTATION = """
name: progress
type: stdout
short_description: One line for each role and machine, and one for each change
description:
  - Each role of a playbook, or play without roles, is a numbered step. It lists its changes by
    their tasks, what tasks say, and what failed. It ends with one line for each machine.
  - With C(-v) the output is Ansible's own.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
author: [Hearth]
"""

STILL_RUNS_SECONDS = 60
FACTS = {"gather_facts", "ansible.builtin.gather_facts"}
SAYS = {"debug", "ansible.builtin.debug"}
"""Modules whose purpose is what they print."""


class CallbackModule(Default):  # type: ignore[misc]
    """Prints steps, changes, messages and failures; the recap counts changes by machine."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "progress"

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[str] = []
        self._number = 0
        self._step = ""
        self._began = self._told = time.monotonic()
        self._changes: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._all_changes: Counter[str] = Counter()
        self._hosts: dict[str, None] = {}
        self._shown_name = False

    @property
    def _is_verbose(self) -> bool:
        return bool(self._display.verbosity)

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Count the steps ahead."""
        if self._is_verbose:
            super().v2_playbook_on_start(playbook)
        self._steps = _without_repetition(
            step for play in playbook.get_plays() for step in _steps_of(play)
        )

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Remember the play; its steps are announced with their first tasks."""
        if self._is_verbose:
            super().v2_playbook_on_play_start(play)
            return
        self._play = play

    def v2_playbook_on_task_start(self, task: Any, *, is_conditional: bool) -> None:
        """Begin another step where the task is of another role."""
        if self._is_verbose:
            super().v2_playbook_on_task_start(task, is_conditional=is_conditional)
            return
        self._last_task_name = task.get_name().strip()
        # Facts are gathered for the step that follows.
        if task.action not in FACTS:
            self._begin(_step_of(task, self._play.get_name().strip()))
        self._show_current(self._last_task_name)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """A handler is part of the step that it ends."""
        if self._is_verbose:
            super().v2_playbook_on_handler_task_start(task)
            return
        self._last_task_name = task.get_name().strip()
        self._show_current(self._last_task_name)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """An included file is no news."""
        if self._is_verbose:
            super().v2_playbook_on_include(included_file)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Show a change by the name of its task, and what a task says."""
        if self._is_verbose:
            super().v2_runner_on_ok(result)
            return
        host = result.host.get_name()
        self._hosts[host] = None
        self._handle_warnings_and_exception(result)
        if result.task.action in SAYS:
            for line in _lines(result.result.get("msg", "")):
                self._show(f"  {host}: {line}")
        if result.result.get("changed", False):
            self._changes[host] += 1
            self._all_changes[host] += 1
            self._show(f"  {host}: {_name(result.task)}", constants.COLOR_CHANGED)

    def v2_runner_on_failed(self, result: Any, *, ignore_errors: bool = False) -> None:
        """Show what failed, where, and the message, which names the remedy."""
        if self._is_verbose:
            super().v2_runner_on_failed(result, ignore_errors=ignore_errors)
            return
        host = result.host.get_name()
        self._hosts[host] = None
        if ignore_errors:
            return
        self._failures[host] += 1
        self._show(f"  {host}: FAILED: {_name(result.task)}", constants.COLOR_ERROR)
        for line in _reasons(result.result):
            self._show(f"    {line}", constants.COLOR_ERROR)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Show that a machine does not answer."""
        if self._is_verbose:
            super().v2_runner_on_unreachable(result)
            return
        host = result.host.get_name()
        self._hosts[host] = None
        self._failures[host] += 1
        self._show(f"  {host}: UNREACHABLE: {_name(result.task)}", constants.COLOR_UNREACHABLE)
        for line in _reasons(result.result):
            self._show(f"    {line}", constants.COLOR_UNREACHABLE)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Items are shown as one task."""
        if self._is_verbose:
            super().v2_runner_item_on_ok(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Items are shown as one task."""
        if self._is_verbose:
            super().v2_runner_item_on_failed(result)

    def v2_runner_retry(self, result: Any) -> None:
        """Say once a minute what is waited for."""
        if self._is_verbose:
            super().v2_runner_retry(result)
            return
        self._still_runs(result)

    def v2_runner_on_async_poll(self, result: Any) -> None:
        """Say once a minute what still runs."""
        if self._is_verbose:
            super().v2_runner_on_async_poll(result)
            return
        self._still_runs(result)

    def v2_runner_on_async_ok(self, result: Any) -> None:
        """The task itself is shown when it ends."""
        if self._is_verbose:
            super().v2_runner_on_async_ok(result)

    def v2_on_file_diff(self, result: Any) -> None:
        """Show differences below the name of their task, with `--diff`."""
        if self._is_verbose:
            super().v2_on_file_diff(result)
            return
        shown = result.result.get("results", [result.result])
        for found in shown:
            if found.get("diff") and found.get("changed", False):
                difference = self._get_diff(found["diff"])
                if difference:
                    self._show(f"  {result.host.get_name()}: {_name(result.task)}:")
                    self._display.display(difference)

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """The summary says it."""
        if self._is_verbose:
            super().v2_playbook_on_no_hosts_remaining()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """End with one line for each machine."""
        if self._is_verbose:
            super().v2_playbook_on_stats(stats)
            return
        self._end()
        self._display.display("\nSummary")
        for host in sorted(stats.processed):
            counted = stats.summarize(host)
            if counted["unreachable"]:
                words, colour = "does not answer", constants.COLOR_UNREACHABLE
            elif counted["failures"]:
                words, colour = "failed, as shown above", constants.COLOR_ERROR
            elif self._all_changes[host]:
                words, colour = _changes(self._all_changes[host]), constants.COLOR_CHANGED
            else:
                words, colour = "nothing changed", constants.COLOR_OK
            self._display.display(f"  {host}: {words}", color=colour)
        self._display.display("")

    def _begin(self, step: str) -> None:
        """Announce a step, unless it is the current one."""
        if step == self._step:
            return
        self._end()
        self._step, self._began = step, time.monotonic()
        # Steps whose tasks do not run at all are passed over.
        ahead = self._steps[self._number :]
        self._number += ahead.index(step) + 1 if step in ahead else 0
        total = len(self._steps)
        width = len(str(total))
        self._show(f"[{self._number:>{width}}/{total}] {step}", constants.COLOR_HIGHLIGHT)

    def _end(self) -> None:
        """End the current step with a line for each machine that took part in it."""
        self._clear_current()
        for host in self._hosts:
            if self._failures[host]:
                continue
            took = time.monotonic() - self._began
            words = _changes(self._changes[host]) if self._changes[host] else "unchanged"
            self._show(f"  {host}: {words} ({took:.0f} s)", constants.COLOR_OK)
        self._hosts.clear()
        self._changes.clear()
        self._failures.clear()

    def _still_runs(self, result: Any) -> None:
        now = time.monotonic()
        if now - max(self._told, self._began) >= STILL_RUNS_SECONDS:
            self._told = now
            minutes = (now - self._began) / 60
            name, host = _name(result.task), result.host.get_name()
            self._show(f"  {host}: still running: {name} ({minutes:.0f} min)")

    def _show(self, line: str, colour: str | None = None) -> None:
        self._clear_current()
        self._display.display(line, color=colour)

    def _show_current(self, name: str) -> None:
        """On a terminal, the task that runs now, in a line that the next one replaces."""
        if sys.stdout.isatty():
            self._clear_current()
            width = max(self._display.columns - 6, 20)
            sys.stdout.write(f"  {name[:width]} …")
            sys.stdout.flush()
            self._shown_name = True

    def _clear_current(self) -> None:
        if self._shown_name:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
            self._shown_name = False


def _steps_of(play: Any) -> Iterator[str]:
    """The step of each task of a play, in order, for the tags of this run."""
    variables = play.get_variable_manager().get_vars(play=play) if play.roles else {}
    for block in play.compile():
        yield from _steps_in(block, play, variables)


def _steps_in(block: Any, play: Any, variables: dict[str, Any]) -> Iterator[str]:
    for task in [*block.block, *block.rescue, *block.always]:
        if isinstance(task, Block):
            yield from _steps_in(task, play, variables)
        elif not task.implicit and task.evaluate_tags(play.only_tags, play.skip_tags, variables):
            yield _step_of(task, play.get_name().strip())


def _step_of(task: Any, play: str) -> str:
    """The outermost role that the task is part of, or else its play."""
    role, part = "", task
    while part is not None:
        own = getattr(part, "_role", None)
        included = getattr(part, "_role_name", None)
        name = own.get_name() if own else included
        role = name if name and "{{" not in name else role
        part = getattr(part, "_parent", None)
    return role or play


def _without_repetition(steps: Iterator[str]) -> list[str]:
    found: list[str] = []
    for step in steps:
        if found[-1:] != [step]:
            found.append(step)
    return found


def _name(task: Any) -> str:
    """The name of the task without that of its role, which is the step."""
    name: str = task.get_name().strip()
    return name.partition(" : ")[2] or name


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


def _lines(message: Any) -> list[str]:
    return [str(line) for line in message] if isinstance(message, list) else [str(message)]


def _reasons(result: dict[str, Any]) -> Iterator[str]:
    """The messages of a result, each item's too, and the last lines of what a program printed."""
    items = [item for item in result.get("results", []) if item.get("failed")]
    for part in items or [result]:
        yield from _lines(part.get("msg", "no message: run it again with -v"))
        printed = part.get("stderr") or part.get("stdout") or part.get("module_stderr") or ""
        if part.get("rc") not in {None, 0}:
            yield from str(printed).strip().splitlines()[-10:]
