"""A callback of Ansible: how long each task took on all its hosts together, into a file as JSON."""

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: task_times
type: aggregate
short_description: time of each task
description: Adds up the seconds of tasks of one name and writes them to the file TASK_TIMES_FILE.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """What Ansible tells, in the order in which it happens."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tasks = 0
        self._name, self._began = "the start", time.monotonic()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._next(f"play {play.get_name()}")

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: FBT001
        self._next(task.get_name())
        self._tasks += 1

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._next(task.get_name())
        self._tasks += 1

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._next("the end")
        told = {"tasks": self._tasks, "seconds": dict(self._seconds)}
        Path(os.environ["TASK_TIMES_FILE"]).write_text(json.dumps(told), encoding="utf-8")

    def _next(self, name: str) -> None:
        now = time.monotonic()
        self._seconds[self._name] += now - self._began
        self._name, self._began = name, now
