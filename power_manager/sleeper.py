"""`python -m power_manager.sleeper`: ask whether this machine may sleep, and let it sleep.

A timer runs it as root on each machine that may sleep. The power manager decides, because it knows
the users of the models; this machine adds the reasons that only it can see.
"""

import os
import subprocess
import sys
import time

import httpx2
import structlog
from pydantic import ValidationError

from hearth.service.logs import configure_logs
from hearth.service.settings import SettingsError, read_key, trusting
from power_manager.machine import Advice
from power_manager.presence import NoLogind, gpu_programs, inhibitors, persons
from power_manager.settings import SleeperSettings

log = structlog.get_logger()

ANSWER_SECONDS = 10.0


class NoAdvice(Exception):
    """The power manager does not answer, or refuses to."""


def main() -> None:
    """Exit with code 1 and one sentence if a setting is wrong or the power manager is away."""
    if os.geteuid() != 0:
        sys.exit("Run this as root: only root sees the programs of all persons.")
    try:
        settings = SleeperSettings.load()
        configure_logs("hearth-sleeper")
        with httpx2.Client(
            base_url=str(settings.manager_url),
            headers={"authorization": f"Bearer {read_key(settings.key_file)}"},
            verify=trusting(settings.ca_file),
            timeout=ANSWER_SECONDS,
            trust_env=False,
        ) as manager:
            sleep_if_allowed(settings, manager)
    except (SettingsError, NoAdvice) as error:
        sys.exit(str(error))


def sleep_if_allowed(settings: SleeperSettings, manager: httpx2.Client) -> None:
    """Ask the power manager, twice if it wants that, and sleep if it says so.

    Raises `NoAdvice`: without a power manager nobody could wake the machine.
    """
    while True:
        advice = _ask(settings, manager, busy(settings))
        if advice.advice == "stay":
            log.info("stays_awake", reason=advice.reason)
            return
        if advice.advice == "sleep":
            break
        time.sleep(advice.seconds)
    log.info("goes_to_sleep", reason=advice.reason, action=settings.action)
    ended = subprocess.run(
        ["systemctl", settings.action, "--check-inhibitors=yes"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        why = f"systemctl {settings.action} failed: {ended.stderr.strip()[:300]}"
        log.error("did_not_sleep", reason=why)
        _ask(settings, manager, why)


def busy(settings: SleeperSettings) -> str:
    """Return what keeps this machine awake as far as it knows, or an empty text."""
    try:
        found = persons() or inhibitors()
    except NoLogind as error:
        return f"The logged-in persons are not known: {str(error)[:300]}"
    return found or gpu_programs(devices=settings.gpu_devices)


def _ask(settings: SleeperSettings, manager: httpx2.Client, reason: str) -> Advice:
    path = f"/api/machines/{settings.machine}/advice"
    try:
        answer = manager.post(path, json={"busy": reason[:500]})
    except httpx2.TransportError as error:
        why = str(error) or type(error).__name__
        raise NoAdvice(
            f"The power manager {settings.manager_url} does not answer: {why}."
        ) from error
    if not answer.is_success:
        raise NoAdvice(
            f"The power manager refuses (HTTP {answer.status_code}): {answer.text[:300]}"
        )
    try:
        return Advice.model_validate_json(answer.content)
    except ValidationError as error:
        raise NoAdvice(f"{settings.manager_url} is not a power manager: {error}") from error


if __name__ == "__main__":
    main()
