"""Programs that somebody has installed and given an address and a key."""

import base64
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients import environments
from tests.integration.gateway.conftest import KEY

CODING = environments.SOURCE / "coding"
"""Claude Code, Codex and OpenCode, and the chat template of the real model that they ask."""

CLOCK = "It is a quarter past twelve."
"""What stands in the file `clock.txt`, which a model reads with a tool of the client."""


@dataclass
class Program:
    """A program that works in a folder: somebody's home, with a file in it."""

    command: list[str]
    home: Path
    environment: dict[str, str]

    def run(self, *arguments: str, seconds: float = 120) -> str:
        """Run it to its end; what it said."""
        ended = self.ended(*arguments, seconds=seconds)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return ended.stdout.strip()

    def ended(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *arguments], cwd=self.home, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False,
        )  # fmt: skip

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it and do not wait."""
        return subprocess.Popen(
            [*self.command, *arguments], cwd=self.home, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def picture(home: Path) -> bytes:
    """Write `red.png`, 64 by 64 red pixels, into a folder; return its bytes (RFC 2083)."""
    rows = (b"\0" + b"\xff\0\0" * 64) * 64
    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    (home / "red.png").write_bytes(content)
    return content


def pictures_in(messages: Iterable[dict[str, Any]]) -> list[bytes]:
    """Return the pictures in the messages that a model was sent."""
    parts = [
        part for one in messages if isinstance(one["content"], list) for part in one["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(";base64,")[2]) for url in urls]


def installed(project: Path) -> Path:
    """The folder with the locked packages of a Node project."""
    if shutil.which("npm") is None:
        pytest.skip("the Node clients are tested where npm is: install Debian's nodejs and npm")
    return environments.node_modules(project)


def compiled(name: str, *, howto: str) -> Path:
    """Return the folder with the programs `conformance` and `page` of a Go or Rust client; `page`
    is the program that the documentation shows. Skips the test if the compiler is missing."""
    source = environments.SOURCE / name
    build, tool = (
        (environments.go_programs, "go")
        if (source / "go.mod").exists()
        else (environments.rust_programs, "cargo")
    )
    if shutil.which(tool) is None:
        pytest.skip(f"this client is tested where {tool!r} is on PATH")
    return build(source, howto)


def claude(url: str, home: Path, **more: str) -> Program:
    """Claude Code of somebody who has set an address and a key. The other variables keep it from
    calling home; see https://code.claude.com/docs/en/env-vars."""
    (home / "clock.txt").write_text(f"{CLOCK}\n")
    bin_folder = installed(CODING) / "node_modules" / ".bin"
    environment = {
        "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "ANTHROPIC_MODEL": "small",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        **more,
    }
    return Program(["claude"], home, environment)


CONFIG = """\
model = "{model}"
model_provider = "hearth"

[model_providers.hearth]
name = "Hearth"
base_url = "{url}/v1"
env_key = "HEARTH_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
SILENT = """
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false
"""
"""What keeps it from calling home; see https://developers.openai.com/codex/config-reference."""


def codex(url: str, home: Path, model: str = "small") -> Program:
    """Codex of somebody who has set an address and a key."""
    (home / "clock.txt").write_text(f"{CLOCK}\n")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(with_silence(CONFIG.format(model=model, url=url)))
    bin_folder = installed(CODING) / "node_modules" / ".bin"
    environment = {
        "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "HEARTH_KEY": KEY,
    }  # fmt: skip
    return Program(["codex"], home, environment)


def with_silence(config: str) -> str:
    """Return the configuration of a user with `SILENT`, whose top-level keys come first."""
    top, _, tables = SILENT.partition("\n\n")
    return f"{top.strip()}\n{config}\n{tables}"


OPENCODE = """\
{{
  "$schema": "https://opencode.ai/config.json",
  "model": "hearth/{model}",
  "small_model": "hearth/{model}",
  "provider": {{
    "hearth": {{
      "npm": "@ai-sdk/openai-compatible",
      "name": "Hearth",
      "options": {{"baseURL": "{url}/v1", "apiKey": "{{env:OPENAI_API_KEY}}"}},
      "models": {{
        "{model}": {{
          "limit": {{"context": 32768, "output": 4096}},
          "attachment": true,
          "modalities": {{"input": ["text", "image"], "output": ["text"]}}
        }}
      }}
    }}
  }}
}}
"""
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}
"""Variables that keep OpenCode from downloading things; see https://opencode.ai/docs/cli."""


def opencode(url: str, home: Path, model: str = "small") -> Program:
    """OpenCode of a user who has written an address and a key into its configuration."""
    (home / "clock.txt").write_text(f"{CLOCK}\n")
    (home / "opencode.json").write_text(OPENCODE.format(model=model, url=url))
    bin_folder = installed(CODING) / "node_modules" / ".bin"
    environment = {
        "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "OPENAI_API_KEY": KEY,
        **QUIET,
    }
    return Program(["opencode"], home, environment)
