"""Ports as a person sets them up: on files, on a git repository, and on a server."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools.ports.opening import Ports
from pipecatapp.workflow import Context
from tests.integration.tools.ports.server import TOKEN, Server


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the branches main and task."""
    (place := tmp_path / "shop").mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    git(place, "checkout", "-q", "-b", "task")
    git(place, "commit", "-q", "--allow-empty", "-m", "second")
    git(place, "checkout", "-q", "main")
    return place


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def ports(
    tmp_path: Path, repository: Path, server: Server, serve: Callable[[ASGIApp], str]
) -> Callable[[str, str], Context]:
    """`ports("tracker", "files")`: a context in which this port is set up."""
    secrets = Secrets(tmp_path / "secrets", {})
    secrets.keep("forgejo", TOKEN)

    def opened(port: str, use: str) -> Context:
        settings = {
            "files": {"folder": str(tmp_path / "files")},
            "git": {"repository": str(repository)},
            "forgejo": {"repository": "home/shop", "token": "kept:forgejo"},
            "deaf": {"repository": "home/shop", "url": "http://127.0.0.1:9"},
        }.get(use, {})
        if use == "forgejo":
            settings["url"] = serve(server.app)
        written = {port: {"use": "forgejo" if use == "deaf" else use, **settings}}
        (tmp_path / "ports.yaml").write_text(json.dumps(written))
        return Context(services={Ports: Ports(tmp_path / "ports.yaml", secrets)})

    return opened
