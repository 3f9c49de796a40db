"""`hearth say` and `hearth listen` against a running instance."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.local.instance import write_instance
from hearth.service.state import Instance, RunningService, StateDir
from speech.cli import commands
from tests.integration.speech.conftest import KEY, Speech
from tests.integration.speech.golden import SENTENCES, word_errors


@pytest.fixture
def state(tmp_path: Path, speech: Speech) -> StateDir:
    """The state directory of an instance that has these two services."""
    state = StateDir(tmp_path)
    state.key_file.write_text(KEY, encoding="ascii")
    record(state, {"speech-stt": speech.stt, "speech-tts": speech.tts})
    return state


def record(state: StateDir, urls: dict[str, str]) -> None:
    now = datetime.now(UTC)
    services = [
        RunningService(name=name, pid=os.getpid(), port=int(url[-5:]), url=url, since=now)
        for name, url in urls.items()
    ]
    web = "http://127.0.0.1:1"
    instance = Instance(
        pid=os.getpid(), started=now, web=web, api=web, key_file=state.key_file, services=services
    )
    write_instance(state, instance)


def hearth(state: StateDir, *words: str) -> Result:
    app = typer.Typer()
    commands(app)
    return CliRunner().invoke(app, [*words, "--state-dir", str(state.root)])


def test_what_is_said_into_a_file_is_written_down_again(state: StateDir) -> None:
    """Two commands are the quickest way to see that speech works."""
    file = state.root / "question.opus"
    said = hearth(state, "say", SENTENCES[0], "-o", str(file))
    heard = hearth(state, "listen", str(file))

    assert (said.exit_code, heard.exit_code) == (0, 0), said.stderr + heard.stderr
    assert str(file) in said.stdout
    assert word_errors(SENTENCES[0], heard.stdout) <= 0.2


def test_what_is_said_comes_out_of_the_loudspeaker(
    state: StateDir, monkeypatch: pytest.MonkeyPatch, speech: Speech
) -> None:
    """It is played by what the machine has; where there is nothing, that is told. The player here
    keeps what it is given."""
    programs = state.root / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    silent = hearth(state, "say", SENTENCES[0])
    player = programs / "aplay"
    player.write_text('#!/bin/sh\n/bin/cp "$2" "$0.wav" && /bin/echo "$1" >"$0.words"\n')
    player.chmod(0o755)
    played = hearth(state, "say", SENTENCES[0])
    player.write_text("#!/bin/sh\nexit 1\n")
    broken = hearth(state, "say", SENTENCES[0])

    assert (silent.exit_code, played.exit_code, broken.exit_code) == (1, 0, 1)
    assert "No audio player is installed (pw-play, paplay, aplay, afplay)" in silent.stderr
    assert (programs / "aplay.words").read_text() == "-q\n"
    assert word_errors(SENTENCES[0], speech.heard((programs / "aplay.wav").read_bytes())) <= 0.2
    assert "aplay played nothing (it ended with 1)" in broken.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["say", "Hello.", "-o", "x.doc"], "response_format"),
        (["say", "…", "-o", "x.wav"], "The text has no words."),
        (["listen", __file__], "cannot be read as audio"),
    ],
)
def test_refusal_is_one_sentence(state: StateDir, words: Sequence[str], told: str) -> None:
    """Nobody reads a traceback to learn that a file is no sound."""
    ended = hearth(state, *words)

    assert ended.exit_code == 1
    assert told in ended.stderr
    assert isinstance(ended.exception, SystemExit)


def test_instance_without_speech_says_how_to_get_it(state: StateDir) -> None:
    """Somebody may have left it out, and somebody else may wonder."""
    record(state, {})
    without = hearth(state, "say", "Hello.")
    state.instance_file.unlink()
    nothing = hearth(state, "say", "Hello.")

    assert "start it with --speech" in without.stderr
    assert "hearth up" in nothing.stderr
    assert (without.exit_code, nothing.exit_code) == (1, 1)
