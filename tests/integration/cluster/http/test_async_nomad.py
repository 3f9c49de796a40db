"""`AsyncNomad` against an agent that answers as scripted: token, errors and time limits."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hearth.cluster.async_nomad import AsyncNomad
from hearth.cluster.errors import Conflict, Denied, NotFound, Refused, Unreachable
from hearth.cluster.testing import ScriptedAgent


async def test_renewed_token_is_used_without_a_restart(tmp_path: Path) -> None:
    """Nomad replaces the file of a workload's token while its task runs."""
    file = tmp_path / "token"
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/jobs", [])
        async with AsyncNomad(agent.url, token_file=file, timeout=10) as nomad:
            for token in ("first\n", "second\n"):
                file.write_text(token, encoding="ascii")
                assert await nomad.call("GET", "jobs") == []

    headers = [{k.lower(): v for k, v in r.headers.items()} for r in agent.requests]
    assert [sent["x-nomad-token"] for sent in headers] == ["first", "second"]


@pytest.mark.parametrize(
    ("status", "kind"), [(403, Denied), (404, NotFound), (409, Conflict), (500, Refused)]
)
async def test_error_status_has_the_same_error_as_in_the_other_client(
    status: int, kind: type[Refused]
) -> None:
    """A caller distinguishes a missing job from a missing right."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/job/a", "the reason", status=status)
        async with AsyncNomad(agent.url, timeout=10) as nomad:
            with pytest.raises(kind) as caught:
                await nomad.call("GET", "job/a")

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.answer) == (status, "the reason")


async def test_missing_token_and_missing_json_are_no_response(tmp_path: Path) -> None:
    """Both happen while Nomad or a proxy in front of it restarts."""
    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/jobs", b"<html>")
        async with AsyncNomad(agent.url, timeout=10) as nomad:
            with pytest.raises(Unreachable, match="not JSON"):
                await nomad.call("GET", "jobs")
        async with AsyncNomad(agent.url, token_file=tmp_path / "none", timeout=10) as nomad:
            with pytest.raises(Unreachable, match="No such file"):
                await nomad.call("GET", "jobs")


async def test_socket_of_the_task_api_is_used() -> None:
    """A task reaches Nomad through a Unix socket, whose address has no host."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        body = b'"%s"' % request.split()[1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    with TemporaryDirectory() as folder:
        path = Path(folder, "api.sock")
        async with (
            await asyncio.start_unix_server(serve, path),
            AsyncNomad(f"unix://{path}", timeout=10) as nomad,
        ):
            assert await nomad.call("GET", "nodes", params={"a": "b"}) == "/v1/nodes?a=b"
