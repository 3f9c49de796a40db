"""What a collector of traces is told of requests, over real OTLP."""

import gzip
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hearth.openai_api.testing import ScriptedModel
from hearth.service.settings import SettingsError
from tests.integration.gateway.conftest import CHAT, KEY, SERVICE_KEY, Lab, chat, wait_until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
"""Those of the example of W3C Trace Context."""


class Collector:
    """Takes traces as a collector does, and keeps them."""

    def __init__(self) -> None:
        self.raw = b""
        self.spans: list[Span] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.raw += body
        told = ExportTraceServiceRequest.FromString(body)
        for resource in told.resource_spans:
            for several in resource.scope_spans:
                self.spans.extend(several.spans)
        await Response(b"", 200, media_type="application/x-protobuf")(scope, receive, send)


def facts(span: Span) -> dict[str, Any]:
    """Its attributes, as Python's values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_collector_is_told_of_each_request_and_of_each_server_that_was_asked(
    lab: Lab, tmp_path: Path
) -> None:
    """Where a second went is seen in the trace that the caller's program began; no word is."""
    collector, model, broken = Collector(), ScriptedModel(), ScriptedModel()
    model.when("secret plan").say("one two three")
    broken.when("secret plan").lose(how="close")
    with ExitStack() as stack:
        traces = lab.serve(collector)
        inner = Lab(stack, tmp_path)
        gateway = inner.gateway(
            inner.expert(broken), inner.expert(model), traces_url=f"{traces}/v1/traces"
        )
        told = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        answer = gateway.post(CHAT, json=chat("my secret plan", stream=True), headers=told)
        answer.raise_for_status()
        missing = gateway.post(CHAT, json=chat("my secret plan", "nobody"))
        wait_until(lambda: len(collector.spans) >= 4, 60)

    asked, not_found = (s for s in collector.spans if s.kind == Span.SPAN_KIND_SERVER)
    assert (asked.name, asked.trace_id.hex()) == ("chat small", TRACE)
    assert asked.parent_span_id.hex() == PARENT
    found = facts(asked)
    assert found["gen_ai.request.model"] == found["hearth.expert"] == "small"
    assert found["gen_ai.usage.output_tokens"] == 3
    assert found["http.response.status_code"] == 200
    assert found["hearth.request_id"] == answer.headers["x-request-id"]
    assert found["hearth.route"] == answer.headers["x-hearth-route"]
    assert [event.name for event in asked.events] == ["first_byte"]
    assert not asked.status.code
    attempts = [s for s in collector.spans if s.parent_span_id == asked.span_id]
    assert [facts(one).get("error.type") for one in attempts] == ["upstream_lost", None]
    assert all(asked.start_time_unix_nano <= one.start_time_unix_nano for one in attempts)
    assert all(one.end_time_unix_nano <= asked.end_time_unix_nano for one in attempts)
    assert facts(not_found)["http.response.status_code"] == missing.status_code == 404
    for secret in ("secret", "one two", KEY, SERVICE_KEY):
        assert secret.encode() not in collector.raw


@pytest.mark.parametrize("told", [None, f"00-{TRACE}-{PARENT}-01"])
def test_server_is_told_the_span_that_asks_it(lab: Lab, tmp_path: Path, told: str | None) -> None:
    """What a server tells the collector itself lies beneath the gateway's own span, not beside."""
    collector, model = Collector(), ScriptedModel()
    with ExitStack() as stack:
        inner = Lab(stack, tmp_path)
        traces_url = f"{lab.serve(collector)}/v1/traces"
        gateway = inner.gateway(inner.expert(model), traces_url=traces_url)
        headers = {"traceparent": told} if told else {}
        gateway.post(CHAT, json=chat("x"), headers=headers).raise_for_status()
        wait_until(lambda: len(collector.spans) >= 2, 60)

    asked, asking = sorted(collector.spans, key=lambda span: span.kind)
    assert asking.parent_span_id == asked.span_id
    assert asking.trace_id == asked.trace_id
    sent = model.requests[0].headers["traceparent"]
    assert sent == f"00-{asking.trace_id.hex()}-{asking.span_id.hex()}-01"
    assert not told or asked.trace_id.hex() == TRACE


def test_collector_that_is_away_costs_no_answer(lab: Lab, tmp_path: Path) -> None:
    """Neither while requests come nor when the gateway stops."""
    with ExitStack() as stack:
        inner = Lab(stack, tmp_path)
        nobody = "http://127.0.0.1:9/v1/traces"
        gateway = inner.gateway(inner.expert(ScriptedModel()), traces_url=nobody)
        answers = [gateway.post(CHAT, json=chat("x")) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200] * 3


def test_gateway_without_a_collector_loads_nothing_for_it() -> None:
    """Nor for a Consul, nor for coloured errors: each library takes megabytes of every process."""
    told = "import sys, moe_gateway.__main__; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert {"opentelemetry.sdk", "httpx2", "rich", "greenlet"}.isdisjoint(found.stdout.split())


def test_setting_without_the_library_stops_the_start(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces that nobody gets, in silence, would be missed when they are needed."""
    monkeypatch.setitem(sys.modules, "moe_gateway.requests.traces", None)

    with pytest.raises(SettingsError, match=r"MOE_GATEWAY_TRACES_URL needs hearth\[tracing\]"):
        lab.gateway(ready=False, traces_url="http://127.0.0.1:9/v1/traces")
