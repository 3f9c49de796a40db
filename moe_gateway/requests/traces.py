"""Traces of requests, for a collector that supports OTLP over HTTP (OpenTelemetry).

Each request is a span, with a child span for each server that was tried. Names follow the semantic
conventions for generative AI where they exist, otherwise they begin with `hearth.`. Spans contain
no text of requests or answers, and no keys. This module is imported only if a setting names a
collector; spans are created when a request has ended, and sent by a thread of the library.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hearth.service.names import MOE_GATEWAY
from hearth.service.version import hearth_version
from moe_gateway.endpoints import Kind
from moe_gateway.http.headers import TRACEPARENT
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.reply import Cut, Reply

SEND_SECONDS: Final = 3.0
"""How long the collector may take; also the most that a stop waits for it."""
SEND_EVERY: Final = 1.0
"""Seconds between two batches."""

OPERATIONS: Final[dict[Kind, str]] = {
    "chat": "chat",
    "text": "text_completion",
    "embeddings": "embeddings",
    "rerank": "rerank",
    "images": "image_generation",
    "stt": "transcription",
    "tts": "speech",
}
FROM_HEAD: Final = {
    b"x-hearth-expert": "hearth.expert",
    b"x-hearth-route": "hearth.route",
    b"x-hearth-model": "gen_ai.response.model",
}
ENDINGS: Final[dict[Cut | None, str]] = {Cut.DISCONNECTED: "gone", Cut.TIMED_OUT: "late"}
PARENT: Final = frozenset((TRACEPARENT, b"tracestate"))
"""How a caller names the trace that its request belongs to (W3C Trace Context)."""


class Ids(RandomIdGenerator):
    """Returns the ids that servers already received, before the span existed; otherwise random
    ones."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_trace_id(self) -> int:
        told, self.trace = self.trace, 0
        return told or super().generate_trace_id()

    def generate_span_id(self) -> int:
        told, self.span = self.span, 0
        return told or super().generate_span_id()


class Traces:
    """Sends a span of each completed request to a collector, and the ids of spans to servers."""

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        """`url` is the collector's address for traces, such as `http://10.0.0.2:4318/v1/traces`."""
        session = requests.Session()
        session.trust_env = False
        exporter = OTLPSpanExporter(
            url,
            certificate_file=None if ca_file is None else str(ca_file),
            timeout=SEND_SECONDS,
            session=session,
        )
        resource = Resource({"service.name": MOE_GATEWAY, "service.version": hearth_version()})
        self._ids = Ids()
        self._provider = TracerProvider(
            sampler=ParentBased(ALWAYS_ON),
            resource=resource,
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=SEND_EVERY * 1000)
        )
        self._tracer: Tracer = self._provider.get_tracer("moe_gateway", hearth_version())
        self._parents = TraceContextTextMapPropagator()

    def close(self) -> None:
        """Send what is left; returns after `SEND_SECONDS` at the latest."""
        self._provider.shutdown()

    def asking(self, request: RequestContext) -> bytes:
        """Return the header with the span of a request to a server, so that the server's own
        spans become its children."""
        parent = get_current_span(self._parent(request)).get_span_context()
        request.trace = request.trace or parent.trace_id or self._ids.generate_trace_id()
        request.span = self._ids.generate_span_id()
        flags = parent.trace_flags if parent.is_valid else TraceFlags.SAMPLED
        return b"traceparent: 00-%032x-%016x-%02x\r\n" % (request.trace, request.span, flags)

    def over(self, request: RequestContext, reply: Reply) -> None:
        """Send the span of a completed request. The times of `request` and `reply` are those of
        `time.perf_counter`."""
        clock = time.time_ns() - time.perf_counter_ns()
        operation = OPERATIONS[request.kind]
        parent = self._parent(request)
        if not get_current_span(parent).get_span_context().is_valid:
            self._ids.trace = request.trace
        span = self._tracer.start_span(
            f"{operation} {request.model}",
            parent,
            SpanKind.SERVER,
            {"gen_ai.operation.name": operation, **dict(_facts(request, reply))},
            start_time=clock + _ns(reply.started_at),
        )
        if span.is_recording():
            self._attempts(request, span, clock)
            if reply.first_byte_at:
                span.add_event("first_byte", timestamp=clock + _ns(reply.first_byte_at))
            if reply.status >= 500:
                span.set_status(StatusCode.ERROR)
        span.end(clock + time.perf_counter_ns())

    def _attempts(self, request: RequestContext, span: Span, clock: int) -> None:
        inside = set_span_in_context(span)
        for one in request.attempts:
            self._ids.span = one.span
            asking = self._tracer.start_span(
                f"ask {one.instance}",
                inside,
                SpanKind.CLIENT,
                {"hearth.instance": one.instance},
                start_time=clock + _ns(one.begun),
            )
            if one.failure:
                asking.set_attribute("error.type", one.failure)
                asking.set_status(StatusCode.ERROR)
            asking.end(clock + _ns(one.ended))

    def _parent(self, request: RequestContext) -> Context:
        headers = {n.decode(): v.decode("latin-1") for n, v in request.headers if n in PARENT}
        return self._parents.extract(headers)


def _facts(request: RequestContext, reply: Reply) -> Iterator[tuple[str, Any]]:
    yield "gen_ai.provider.name", "hearth"
    yield "gen_ai.request.model", request.model
    yield "http.request.method", "POST"
    yield "http.response.status_code", reply.status
    yield "hearth.request_id", reply.request_id.decode()
    yield "hearth.key", request.caller.name
    yield "hearth.stream", bool(request.look.stream)
    yield "hearth.queue_seconds", request.queued
    yield "hearth.ended", ENDINGS.get(reply.cut, "answered")
    for name, value in reply.facts:
        if name in FROM_HEAD:
            yield FROM_HEAD[name], value.decode("latin-1")
    if request.usage is not None:
        yield "gen_ai.usage.input_tokens", request.usage.prompt
        yield "gen_ai.usage.output_tokens", request.usage.completion


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
