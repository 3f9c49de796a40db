"""Logs: one line an event, and never a secret."""

import subprocess
import sys

import pytest

SCRIPT = """
import logging, structlog
from hearth.service.logs import configure_logs
configure_logs("oven", level="info")
log = structlog.get_logger()
{code}
"""


def logged(code: str) -> str:
    """What a service that runs this writes to standard error, where logs belong."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(code=code)], capture_output=True, text=True, check=True
    )
    assert ended.stdout == ""
    return ended.stderr


@pytest.mark.parametrize(
    "name", ["key", "api_key", "Authorization", "session_cookie", "client_secret", "token"]
)
def test_value_of_a_secret_is_hidden(name: str) -> None:
    """Logs are copied into tickets and chats."""
    line = logged(f"log.info('asked', {name}='sk-hearth-123')")

    assert "sk-hearth-123" not in line
    assert f"{name}=***" in line


@pytest.mark.parametrize("name", ["key_file", "key_name", "tokens", "prompt_tokens"])
def test_words_that_only_sound_secret_are_shown(name: str) -> None:
    """Counting tokens is what the log of a model gateway is for."""
    assert f"{name}=7" in logged(f"log.info('asked', {name}=7)")


def test_line_has_moment_level_event_and_service() -> None:
    """These four make lines of several services comparable."""
    line = logged("log.warning('oven_cold', degrees=20)")

    assert line.startswith("timestamp=")
    for part in ("level=warning", "event=oven_cold", "degrees=20", "service=oven"):
        assert part in line
    assert line.count("\n") == 1


def test_loggers_of_libraries_write_to_the_same_place() -> None:
    """A warning of a library must not be lost."""
    assert "it is hot" in logged("logging.getLogger('library').warning('it is hot')")


def test_every_error_is_one_line_with_its_traceback() -> None:
    """Whoever collects logs takes a line for an event; a traceback in pieces is nobody's."""
    told = logged(
        "import threading, warnings\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError:\n"
        "    log.exception('ours')\n"
        "    logging.getLogger('uvicorn').exception('of a library')\n"
        "one = threading.Thread(target=lambda: 1 / 0)\none.start()\none.join()\n"
        "log.error('hostile', exc_info=ZeroDivisionError('a\\r\\x1b[2J\\u2028b'))\n"
        "warnings.warn('it will be cold')"
    ).splitlines()

    *errors, warning = told
    assert len(errors) == 4, told
    for line in errors:
        for part in ("timestamp=", "level=error", "service=oven", "ZeroDivisionError"):
            assert part in line
    assert "level=warning" in warning
    assert "it will be cold" in warning


def test_error_that_ends_the_process_is_one_line() -> None:
    """The last words of a service are what matters most of its log."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(code="1 / 0")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended.stderr
    assert "event=process_broke" in ended.stderr
    assert "division by zero" in ended.stderr


def test_lower_level_is_left_out() -> None:
    """Debug lines are for whoever asked for them."""
    assert logged("log.debug('detail')") == ""
