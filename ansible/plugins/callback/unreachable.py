"""Says at the end of a run what helps where machines did not answer: Ansible tells ssh's words."""

from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: unreachable
type: aggregate
short_description: Say what helps where machines did not answer
description:
  - Below the recap of a run stands which machines did not answer any more, what to look at, and
    that the same command goes on where it was.
author: [Hearth]
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Adds one sentence to the end of a run in which machines did not answer."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "unreachable"

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Ansible calls this once, after the last task."""
        if stats.dark:
            names = ", ".join(sorted(stats.dark))
            self._display.display(
                f"{names}: no answer, or none any more. See whether power and cable are in, and"
                " whether `ssh` opens it at the address of the inventory; then run the same command"
                " again: it goes on where it was.\n",
                color="red",
            )
