"""`hearth say` and `hearth listen`: speech from a shell."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import httpx2
import typer

from hearth.openai_api.errors import message_of
from hearth.service.names import SPEECH_STT, SPEECH_TTS
from hearth.service.settings import SettingsError, read_key
from hearth.service.state import StateDir, read_instance
from hearth.settings import Settings

PLAYERS: Final = (("pw-play",), ("paplay",), ("aplay", "-q"), ("afplay",))
ANSWER_SECONDS: Final = 300.0

StateOption = Annotated[
    Path | None,
    typer.Option("--state-dir", help="State directory of the instance.", show_default=False),
]


class SpeechFailed(Exception):
    """An error whose message is for users; exit code 1."""


def commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("say")(say)
    app.command("listen")(listen)


def say(
    text: Annotated[str, typer.Argument(help="The text to speak.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write this file (.wav, .mp3, .opus, .flac, .pcm) instead of playing.",
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0.25, max=4.0, help="Speed, relative to the voice's normal speed."
        ),
    ] = 1.0,
    state_dir: StateOption = None,
) -> None:
    """Speak a text on this machine's loudspeaker, or write the speech to a file."""
    with told():
        kind = output.suffix.removeprefix(".").lower() if output is not None else "wav"
        asked = {"model": "tts-1", "input": text, "response_format": kind, "speed": speed}
        with client(SPEECH_TTS, state_dir) as http:
            answer = checked(http.post("/v1/audio/speech", json=asked))
        if output is not None:
            output.write_bytes(answer.content)
            typer.echo(f"{output}: {len(answer.content)} bytes")
        else:
            play(answer.content)


def listen(
    file: Annotated[
        Path,
        typer.Argument(help="A recording: WAV, MP3, Ogg or FLAC.", exists=True, dir_okay=False),
    ],
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with segments and their times.")
    ] = False,
    state_dir: StateOption = None,
) -> None:
    """Transcribe a recording."""
    with told(), client(SPEECH_STT, state_dir) as http:
        answer = checked(
            http.post(
                "/v1/audio/transcriptions",
                files={"file": (file.name, file.read_bytes())},
                data={"model": "whisper-1", "response_format": "verbose_json"},
            )
        )
        found: dict[str, Any] = answer.json()
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else found["text"])


@contextmanager
def told() -> Iterator[None]:
    """Report errors that a user can correct in one line; exit code 1."""
    try:
        yield
    except (SpeechFailed, SettingsError, OSError, httpx2.TransportError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


@contextmanager
def client(service: str, state_dir: Path | None) -> Iterator[httpx2.Client]:
    """Speaks to that service of the running instance."""
    state = StateDir(state_dir or Settings.load().state_dir)
    instance = read_instance(state)
    if instance is None:
        raise SpeechFailed(f"No instance is running on {state.root}: start it with `hearth up`.")
    urls = {running.name: running.url for running in instance.services}
    if service not in urls:
        raise SpeechFailed("This instance was started without speech: start it with --speech.")
    headers = {"authorization": f"Bearer {read_key(state.key_file)}"}
    with httpx2.Client(
        base_url=urls[service], headers=headers, timeout=ANSWER_SECONDS, trust_env=False
    ) as http:
        yield http


def checked(answer: httpx2.Response) -> httpx2.Response:
    """The answer, unless it is a refusal, whose words are raised."""
    if answer.is_success:
        return answer
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    raise SpeechFailed(message_of(body))


def play(sound: bytes) -> None:
    """Play a WAV with the first player that is installed."""
    player = next((words for words in PLAYERS if shutil.which(words[0])), None)
    if player is None:
        names = ", ".join(words[0] for words in PLAYERS)
        raise SpeechFailed(
            f"No audio player is installed ({names}): write a file with -o FILE.wav."
        )
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        file.write(sound)
        file.flush()
        ended = subprocess.run([*player, file.name], check=False)
    if ended.returncode:
        raise SpeechFailed(
            f"{player[0]} played nothing (it ended with {ended.returncode}): write a file with"
            " -o FILE.wav."
        )
