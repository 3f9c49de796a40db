"""Settings that refuse names they do not know."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings


class SettingsError(Exception):
    """Correct the environment variable that the message names, then start again."""


class StrictSettings(BaseSettings):
    """Base of every service's settings: read from the environment once, then frozen.

    A subclass sets `model_config = SettingsConfigDict(env_prefix="NAME_", frozen=True)`.
    """

    @classmethod
    def load(cls) -> Self:
        """Read the environment.

        Raises `SettingsError` for a name under our prefix that is no setting (a misspelt one is
        never ignored), a missing setting, or a value that does not fit.
        """
        prefix = str(cls.model_config["env_prefix"])
        known = {f"{prefix}{name}".upper() for name in cls.model_fields}
        for name in sorted(os.environ):
            if name.startswith(prefix) and name not in known:
                raise SettingsError(_unknown(name, known))
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_first_problem(prefix, error)) from error


def _unknown(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1)
    question = f" Did you mean {near[0]}?" if near else ""
    return f"{name} is no setting.{question}"


def _first_problem(prefix: str, error: ValidationError) -> str:
    problem = error.errors()[0]
    name = f"{prefix}{'.'.join(str(part) for part in problem['loc'])}".upper()
    if problem["type"] == "missing":
        return f"{name} is not set."
    return f"{name}: {problem['msg']}."


def read_key(path: Path) -> str:
    """The key kept in a file; an empty or unreadable file is a `SettingsError`."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be read: {error.strerror}.") from error
    if not key:
        raise SettingsError(f"The key file {path} is empty.")
    return key
