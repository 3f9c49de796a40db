"""Log files: a moment a line, rotation by size, reading them together, following them."""

import re
from pathlib import Path

import pytest

from hearth.local.commands.logs import Tail, logs_of, new_lines, show_last
from hearth.local.errors import NoLog
from hearth.local.process.logfile import KEPT, LogFile
from hearth.service.state import StateDir


def texts(path: Path) -> list[str]:
    return [line.partition(" ")[2] for line in path.read_text(encoding="utf-8").splitlines()]


def test_line_is_written_with_its_moment_for_its_owner_only(tmp_path: Path) -> None:
    """Logs of several services can only be read together when each line has its time."""
    log = LogFile(tmp_path / "logs" / "a.log")
    log.write("ready — ✓")
    log.close()

    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ready — ✓\n",
        log.path.read_text(encoding="utf-8"),
    )
    assert log.path.stat().st_mode & 0o077 == 0


@pytest.mark.proves("002-30")
def test_full_log_is_rotated_and_old_ones_are_dropped(tmp_path: Path) -> None:
    """A service that logs for a year must not fill the disk."""
    log = LogFile(tmp_path / "a.log", max_bytes=100)
    for number in range(20):
        log.write(f"line {number}")
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())

    assert files == ["a.log", *(f"a.log.{number}" for number in range(1, KEPT + 1))]
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    assert texts(log.path)[-1] == "line 19"


def test_restart_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """What a service said before it died is what one looks for."""
    for text in ("before", "after"):
        log = LogFile(tmp_path / "a.log")
        log.write(text)
        log.close()

    assert texts(tmp_path / "a.log") == ["before", "after"]


def test_disk_that_is_full_is_no_reason_to_stop(tmp_path: Path) -> None:
    """The service works on without its log, and somebody is told why."""
    log = LogFile(tmp_path / "a.log")
    log.path.symlink_to("/dev/full")
    log.write("lost")

    assert log.failure is not None
    assert log.failure.strerror == "No space left on device"
    log.path.unlink()
    log.write("kept")
    log.close()
    assert log.failure is None
    assert texts(log.path) == ["kept"]


def test_last_lines_of_several_logs_come_in_the_order_of_time(tmp_path: Path) -> None:
    """A failure is read across services: who was first?"""
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_text("2026-05-09T10:00:01.000Z b\n2026-05-09T10:00:03.000Z d\n", encoding="ascii")
    (tmp_path / "other.log.1").write_text("2026-05-09T10:00:00.000Z a\n", encoding="ascii")
    other.write_text("2026-05-09T10:00:02.000Z c\n", encoding="ascii")
    shown: list[tuple[str, str]] = []
    show_last([one, other], 3, lambda service, text: shown.append((service, text)))

    assert shown == [("one", "b"), ("other", "c"), ("one", "d")]


def test_follower_sees_new_whole_lines_across_a_rotation(tmp_path: Path) -> None:
    """`hearth logs -f` must not fall silent at midnight."""
    log = LogFile(tmp_path / "a.log", max_bytes=120)
    log.write("old")
    tail = Tail(log.path)
    log.write("first")
    assert [text for _, _, text in tail.read()] == ["first"]
    log.write("last before it is full")
    log.write("first of the next file")

    assert [text for _, _, text in tail.read()] == [
        "last before it is full", "first of the next file",
    ]  # fmt: skip
    log.close()
    tail.close()


def test_follower_keeps_the_order_of_lines_of_one_moment(tmp_path: Path) -> None:
    """A traceback is written within a millisecond; sorted by its words it could not be read."""
    path = tmp_path / "a.log"
    path.touch()
    tail, moment = Tail(path), "2026-05-09T10:00:00.000Z"
    path.write_text(f"{moment} Traceback\n{moment}   File\n{moment} Error\n", encoding="ascii")
    lines = new_lines([tail])
    tail.close()

    assert [text for _, _, text in lines] == ["Traceback", "  File", "Error"]


def test_half_a_line_is_held_back(tmp_path: Path) -> None:
    """A line that is cut in two reads like two."""
    path = tmp_path / "a.log"
    path.touch()
    tail = Tail(path)
    with path.open("ab", buffering=0) as file:
        file.write(b"2026-05-09T10:00:00.000Z hal")
        assert list(tail.read()) == []
        file.write(b"f\n")
    lines = list(tail.read())
    tail.close()

    assert lines == [("2026-05-09T10:00:00.000Z", "a", "half")]


def test_unknown_service_is_asked_back(tmp_path: Path) -> None:
    """An empty output would say that the service wrote nothing."""
    state = StateDir(tmp_path)
    state.logs.mkdir()
    for name in ("moe-gateway", "llama-expert-smollm2"):
        (state.logs / f"{name}.log").touch()

    assert [p.stem for p in logs_of(state, None)] == ["llama-expert-smollm2", "moe-gateway"]
    assert [p.stem for p in logs_of(state, "llama-expert")] == ["llama-expert-smollm2"]
    with pytest.raises(NoLog, match=r"did you mean moe-gateway\?"):
        logs_of(state, "moe-gatway")
