"""`hearth doctor --report`: enough for the report of a bug, and no secret."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hearth.cli import build_cli
from hearth.local.commands.report import redacted, report
from hearth.service.state import StateDir

SECRETS = [
    "sk-hearth-0123456789abcdef",
    "sk-proj-of-another-service",
    "a-bearer-value",
    "pa55word",
    "0f9c1d52-6f5c-4b1f-9d4c-6a5d1c2b3e4f",
    "MIIEvQIBADANBgkq",
    "user:passw0rd",
]
LOG = """\
loading the model on ROCm0
key sk-hearth-0123456789abcdef sk-proj-of-another-service
{"authorization": "Bearer a-bearer-value"}
HF_TOKEN=pa55word "api_key": "pa55word"
consul token 0f9c1d52-6f5c-4b1f-9d4c-6a5d1c2b3e4f
-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkq
-----END PRIVATE KEY-----
proxy http://user:passw0rd@proxy.test:3128
ggml_cuda_init: found no device
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """A state directory with a key of its own and an expert's log full of secrets."""
    state = StateDir(tmp_path / "state")
    state.logs.mkdir(parents=True)
    state.key_file.write_text("an unusual key\n")
    (state.logs / "llama-expert-general.log").write_text(f"{LOG}an unusual key\n")
    return state


def test_report_has_the_facts_of_a_graphics_card_and_no_secret(
    state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People paste it into a public issue."""
    monkeypatch.chdir(tmp_path)
    state.key_file.chmod(0o600)

    done = CliRunner().invoke(
        build_cli(), ["doctor", "--report", "--state-dir", str(state.root), "--port-base", "39000"]
    )

    assert "The report is in hearth-report.md" in done.output
    text = (tmp_path / "hearth-report.md").read_text()
    for fact in (
        "## Graphics cards",
        "## Devices",
        "groups of this user: ",
        "PRETTY_NAME",
        "MemTotal",
        "loading the model on ROCm0",
        "found no device",
        "python: ",
    ):
        assert fact in text  # fmt: skip
    assert [secret for secret in [*SECRETS, "an unusual key"] if secret in text] == []


def test_engine_is_named_with_what_it_sees(state: StateDir, tmp_path: Path) -> None:
    """Which build it is and which devices it finds is the first question of every answer."""
    program = tmp_path / "llama.cpp" / "0c1e57-x86_64-vulkan" / "bin" / "llama-server"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "answer to $1"\n')
    program.chmod(0o755)
    (tmp_path / "llama.cpp" / "current").symlink_to("0c1e57-x86_64-vulkan")

    text = report(state, [], tmp_path)

    assert "llama.cpp: 0c1e57-x86_64-vulkan" in text
    assert "answer to --list-devices" in text


def test_what_is_no_secret_stays(state: StateDir) -> None:
    """A report of nothing but gaps helps nobody."""
    line = "n_tokens = 5, token count: many, /dev/dri/renderD128 660 render opens"

    assert redacted(line, state).startswith("n_tokens = ")
    assert "/dev/dri/renderD128 660 render opens" in redacted(line, state)
