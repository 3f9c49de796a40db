"""What a process of an engine says when it breaks."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "words", [("piper_process", "/none.onnx"), ("hearing_process", "none", "/none", "1")]
)
def test_error_that_ends_an_engine_is_one_line_of_the_log(words: tuple[str, ...]) -> None:
    """Its standard error is the service's log, where a line is an event."""
    name, *arguments = words
    ended = subprocess.run(
        [sys.executable, "-P", "-m", f"speech.engines.{name}", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "event=process_broke" in ended.stderr
    assert "Traceback" in ended.stderr
