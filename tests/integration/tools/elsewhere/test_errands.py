"""The door where workers of the cluster fetch and deliver: one key, for one errand, once."""

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from pipecatapp.api.errors import answer_errors_as_openai
from pipecatapp.api.state import errands
from pipecatapp.sandbox import Limits
from pipecatapp.sandbox.errand import Errand
from pipecatapp.tools.code.elsewhere.errands import Errands, Offered

ERRAND = Errand(["true"], Limits(disk=1 << 20))


@pytest.fixture
def kept(tmp_path: Path) -> Errands:
    return Errands(tmp_path / "errands")


@pytest.fixture
async def offered(kept: Errands, tmp_path: Path) -> Offered:
    (tmp_path / "work").mkdir()
    return await kept.offer("run:path", ERRAND, tmp_path / "work")


@pytest.fixture
def url(serve: Callable[[ASGIApp], str], kept: Errands, offered: Offered) -> str:
    app = FastAPI()
    app.state.errands = kept
    answer_errors_as_openai(app)
    app.include_router(errands.router)
    return f"{serve(app)}/api/errands/{offered.id}"


def ask(method: str, url: str, token: str, content: bytes = b"") -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.request(method, url, headers=headers, content=content, timeout=60).status_code


async def test_only_its_token_opens_an_errand_and_only_once(url: str, offered: Offered) -> None:
    """A machine that runs one program may not read another's files, nor change a result."""
    for wrong in ("x", f"{offered.token}x"):
        assert ask("GET", url, wrong) == ask("PUT", url, wrong, b"forged") == 404
    assert ask("GET", f"{url}0", offered.token) == 404
    assert ask("GET", url, offered.token) == 200
    assert ask("PUT", url, offered.token, b"result") == 204
    assert ask("PUT", url, offered.token, b"another") == ask("GET", url, offered.token) == 404
    assert offered.result.read_bytes() == b"result"


async def test_result_that_is_too_large_is_refused(url: str, offered: Offered) -> None:
    """The disk of this service is not the program's."""
    assert ask("PUT", url, offered.token, bytes(offered.room + 1)) == 413
    assert not offered.result.exists()


async def test_same_call_finds_its_errand_and_another_has_its_own(
    kept: Errands, offered: Offered, tmp_path: Path
) -> None:
    """A resumed run must find what it began, and no other run's."""
    again = await kept.offer("run:path", ERRAND, tmp_path / "work")
    other = await kept.offer("run:other", ERRAND, tmp_path / "work")

    assert (again.id, again.token) == (offered.id, offered.token)
    assert other.id != offered.id
    assert other.token != offered.token
