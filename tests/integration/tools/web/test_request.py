"""The tool `http.request` against a server on a socket."""

from typing import Any

import pytest
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.web.conftest import Site

REQUEST = TOOLS["http.request"]


async def send(ctx: Context, port: int, **more: Any) -> dict[str, Any]:
    """Call the tool."""
    return await REQUEST.check(ctx, {"url": f"http://api.example:{port}/", **more})


async def test_data_is_sent_as_json(ctx: Context, site: Site, port: int) -> None:
    """And text as text."""
    found = await send(ctx, port, data={"a": "ü"})
    assert found["data"]["body"] == '{"a": "ü"}'
    assert found["data"]["headers"]["content-type"] == "application/json"
    found = await send(ctx, port, method="PUT", text="x", headers={"Content-Type": "text/csv"})
    assert (found["data"]["method"], found["data"]["body"]) == ("PUT", "x")
    assert found["data"]["headers"]["content-type"] == "text/csv"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_request_is_never_repeated(ctx: Context, site: Site, port: int, method: str) -> None:
    """It may have had its effect although the answer is an error."""
    site.plan = [PlainTextResponse("busy", 503)]
    with pytest.raises(ToolFailed, match="HTTP 503"):
        await send(ctx, port, method=method)
    assert len(site.seen) == 1


async def test_redirect_is_not_followed(ctx: Context, site: Site, port: int) -> None:
    """The data would go to another address than the document names."""
    site.plan = [RedirectResponse(f"http://other.example:{port}/", 307)]
    with pytest.raises(ToolFailed, match=r"HTTP 307\. It leads to http://other"):
        await send(ctx, port, data={})
    assert len(site.seen) == 1


async def test_text_and_data_together_are_refused(ctx: Context, site: Site, port: int) -> None:
    """One of them would be left out silently."""
    with pytest.raises(ToolFailed, match="not both"):
        await send(ctx, port, data=1, text="x")
    assert site.seen == []


async def test_answer_without_content_is_empty(ctx: Context, site: Site, port: int) -> None:
    """As many services answer to DELETE."""
    site.plan = [Response(status_code=204)]
    found = await send(ctx, port, method="DELETE")
    assert (found["status"], found["text"], found["data"]) == (204, "", None)


def test_model_needs_approval_each_time() -> None:
    """It could send what it has read to a place that a page named."""
    assert REQUEST.effect == "external"
    assert REQUEST.approval({}) == "always"
    assert not REQUEST.resumable
    assert TOOLS["http.get"].effect == "net"
