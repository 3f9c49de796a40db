"""The tool `message.send` on a webhook at the loopback address."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools import TOOLS
from pipecatapp.tools.ports.opening import Ports
from pipecatapp.workflow import Context, ToolFailed

SEND = TOOLS["message.send"]


def channel(tmp_path: Path, address: str) -> Context:
    """A context whose messages go to this address, which is kept as a secret."""
    secrets = Secrets(tmp_path / "secrets", {})
    secrets.keep("chat", address)
    settings = {"messages": {"use": "webhook", "token": "kept:chat"}}
    (tmp_path / "ports.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return Context(services={Ports: Ports(tmp_path / "ports.yaml", secrets)})


@pytest.mark.proves("003-40")
async def test_message_reaches_the_channel(tmp_path: Path, serve: Callable[[ASGIApp], str]) -> None:
    """Its text is the field that Slack, Mattermost and Discord read."""
    received: list[Any] = []

    async def hook(request: Request) -> Response:
        received.append(await request.json())
        return Response("ok")

    address = serve(Starlette(routes=[Route("/hooks/x", hook, methods=["POST"])]))

    sent = await SEND.check(channel(tmp_path, f"{address}/hooks/x"), {"text": "Done: 3 < 4."})

    assert received == [{"text": "Done: 3 < 4."}]
    assert sent == {"text": "Done: 3 < 4."}
    assert SEND.approval({}) == "first"


async def test_message_that_is_not_accepted_is_an_error_without_the_secret_address(
    tmp_path: Path, serve: Callable[[ASGIApp], str]
) -> None:
    """A wrong channel, nobody listening, and no address."""
    address = serve(Starlette())
    for secret, reason in (
        (f"{address}/hooks/wrong", "refuses the message: 404"),
        ("http://127.0.0.1:9/hooks/x", "does not answer"),
        ("hooks.example/x", "must begin with https://"),
    ):
        with pytest.raises(ToolFailed, match=reason) as failed:
            await SEND.check(channel(tmp_path, secret), {"text": "x"})
        assert "hooks" not in str(failed.value)
