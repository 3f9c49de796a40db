"""Secrets of a project in the environment of a program, and out of all that is kept of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pipecatapp.records.secrets import SecretMissing, Secrets
from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.output import Text
from pipecatapp.workflow import Context, ToolFailed

SHORTEST: Final = 6
"""Characters of a line of a secret that is hidden by itself, too."""


def values_of(ctx: Context, asked: Mapping[str, str]) -> dict[str, str]:
    """Variables and their values; `asked` has the names that the project gives them.

    Raises `ToolFailed`: for what the project does not name, for what is not there, and for a model
    that asks, whose program could tell it everything it knows.
    """
    if asked and ctx.project is None:
        raise ToolFailed("Only a node of a workflow with a `project` is given its secrets.")
    named, found = (ctx.project or {}).get("secrets", {}), {}
    for variable, name in asked.items():
        if name not in named:
            known = ", ".join(named) or "none"
            raise ToolFailed(f"The project names no secret {name!r}. It names: {known}.")
        try:
            found[variable] = ctx.service(Secrets).value(named[name])
        except SecretMissing as error:
            raise ToolFailed(f"The secret {name!r} is missing: {error}.") from error
    return found


def hidden(ended: Outcome, values: Mapping[str, str]) -> Outcome:
    """How a program ended, with `***` wherever it printed a secret as it is."""
    if not values:
        return ended
    secrets = {
        part
        for value in values.values()
        for part in (value, *(line for line in value.splitlines() if len(line) >= SHORTEST))
    }
    changes = {Text(path).without(secrets).text: how for path, how in ended.changes.items()}
    stdout, stderr = ended.stdout.without(secrets), ended.stderr.without(secrets)
    return replace(ended, stdout=stdout, stderr=stderr, changes=changes)
