"""The protocol's conformance suite against both of our sides, in both eras."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from pipecatapp.app import build_app
from tests.conftest import served
from tests.integration.agent.conftest import House, empty_house, quiet_logs
from tests.integration.mcp.suite import CLIENT, ERAS, SERVER, STATELESS, Suite

__all__ = ["empty_house", "quiet_logs"]
EXTENDED_INPUTS = [
    "tests/clients/mcp/*",
    "tests/integration/mcp/suite.py",
    "tests/integration/mcp/suite_client.py",
    "pipecatapp/api/mcp/*",
    "pipecatapp/tools/mcp/*",
]
pytestmark = pytest.mark.extended
CLIENT_PROGRAM = Path(__file__).with_name("suite_client.py")


@pytest.fixture
def address(empty_house: House) -> Iterator[str]:
    """An instance; the suite has no option for a key, so each of its requests gets one."""
    key = (b"authorization", f"Bearer {empty_house.key}".encode())

    def with_key(app: ASGIApp) -> ASGIApp:
        async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope = {**scope, "headers": [*scope["headers"], key]}
            await app(scope, receive, send)

        return keyed

    with served(with_key(build_app(empty_house.settings()))) as address:
        yield address


def test_server_conforms_in_both_eras(address: str, tmp_path: Path) -> None:
    """Clients of any maker find what the specification promises."""
    suite = Suite(tmp_path)
    failed: dict[str, list[str]] = {}
    ran: set[str] = set()
    for era in ERAS:
        results = suite.server(f"{address}/mcp", era)
        ran |= results.keys()
        failed |= {name: checks for name, checks in results.items() if checks}

    assert len(ran) > 40, ran
    assert {"server-initialize", "tools-list", "caching", "http-header-validation"} <= ran
    assert failed["server-stateless"] == STATELESS
    assert sorted(failed) == sorted(SERVER), failed


def test_client_conforms_in_both_eras(tmp_path: Path) -> None:
    """Servers of any maker are used as the specification demands."""
    suite = Suite(tmp_path)
    command = shlex.join([sys.executable, str(CLIENT_PROGRAM)])
    failed: dict[str, list[str]] = {}
    ran: set[str] = set()
    for era in ERAS:
        for scenario in suite.scenarios(era):
            results = suite.client(command, scenario, era)
            ran.add(scenario)
            [checks] = results.values()
            if checks:
                failed[scenario] = checks

    assert {"initialize", "tools_call", "request-metadata", "http-standard-headers"} <= ran
    assert sorted(failed) == sorted(CLIENT), failed
