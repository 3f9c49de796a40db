"""Determine the domain of a request for `auto` that neither its caller nor a rule defines: a
small expert classifies it within a time limit. Without a result the request is routed without a
domain."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import structlog

from moe_gateway.http.connection import Lost, UpstreamError
from moe_gateway.http.pool import Pool
from moe_gateway.routing.admission import Admission, Circuit
from moe_gateway.routing.body import Needs
from moe_gateway.routing.choice import undecided
from moe_gateway.routing.instances import Instance

log = structlog.get_logger()

LOOKED_AT: Final = 2000
"""Characters of a conversation's first question."""
REMEMBERED: Final = 1024
"""Answers: each turn of a conversation has the same first question."""
GENERAL: Final = "general"
MAX_ANSWER: Final = 4 * 1024 * 1024


class Classifier:
    """Classifies with the expert `name`: by the distance of embeddings if it supports them,
    otherwise by a question that it can answer only with one of the domains."""

    def __init__(
        self,
        name: str,
        domains: Mapping[str, str],
        seconds: float,
        instances: Sequence[Instance],
        pool: Pool,
        admission: Admission[Instance],
        circuit: Circuit,
    ) -> None:
        """`domains`: name -> its description in one sentence; `seconds` limit each
        classification. A failing expert is used only as often as its `circuit` permits:
        otherwise each request for `auto` would wait these seconds in vain."""
        self._name, self._domains, self._seconds = name, dict(domains), seconds
        self._instances, self._pool = instances, pool
        self._admission, self._circuit = admission, circuit
        self._known: OrderedDict[str, str] = OrderedDict()
        self._vectors: dict[str, list[list[float]]] = {}
        """Model -> the vectors of the domains, each of length 1."""

    async def domain_of(self, text: str, needs: Needs) -> str:
        """Return the domain; empty if none matches, the time is over, or it would not change the
        route of a request with these needs."""
        if not undecided(needs, self._instances):
            return ""
        text = text[:LOOKED_AT]
        if text in self._known:
            self._known.move_to_end(text)
            return self._known[text]
        instance = self._free()
        if not text or instance is None or self._circuit.state == "open":
            return ""
        self._admission.take(instance)
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._ask(instance, text)
        except (UpstreamError, TimeoutError, ValueError, KeyError, TypeError, IndexError) as error:
            reason = str(error) or type(error).__name__
            log.info("domain_unknown", instance=instance.label, reason=reason[:200])
            self._circuit.failed()
            return ""
        finally:
            self._admission.leave(instance)
        self._circuit.succeeded()
        self._known[text] = found
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    def _free(self) -> Instance | None:
        own = (one for one in self._instances if one.expert == self._name)
        return next((one for one in own if one.usable and one.free), None)

    async def _ask(self, instance: Instance, text: str) -> str:
        if instance.embeddings:
            return await self._nearest(instance, text)
        return await self._said(instance, text)

    async def _nearest(self, instance: Instance, text: str) -> str:
        """Return the domain with the nearest description; its embeddings are requested once."""
        model = instance.model or ""
        if model not in self._vectors:
            self._vectors[model] = await self._embed(instance, list(self._domains.values()))
        (own,) = await self._embed(instance, [text])
        near = [sum(map(float.__mul__, own, one)) for one in self._vectors[model]]
        return list(self._domains)[near.index(max(near))]

    async def _embed(self, instance: Instance, texts: list[str]) -> list[list[float]]:
        body = {"model": self._name, "input": texts}
        found = await self._post(instance, "/v1/embeddings", body)
        several = {one["index"]: _unit(one["embedding"]) for one in found["data"]}
        return [several[n] for n in range(len(texts))]

    async def _said(self, instance: Instance, text: str) -> str:
        listed = "\n".join(f"{name}: {about}" for name, about in self._domains.items())
        names = [*self._domains, GENERAL]
        schema = {
            "type": "object",
            "properties": {"domain": {"enum": names}},
            "required": ["domain"],
        }
        body = {
            "model": self._name,
            "messages": [
                {
                    "role": "system",
                    "content": f"Which domain is the text about?\n{listed}\n{GENERAL}: else",
                },
                {"role": "user", "content": text},
            ],
            "temperature": 0,
            "max_tokens": 24,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "domain", "schema": schema},
            },
        }
        found = await self._post(instance, "/v1/chat/completions", body)
        said = orjson.loads(found["choices"][0]["message"]["content"])["domain"]
        return said if said in self._domains else ""

    async def _post(self, instance: Instance, path: str, body: Any) -> Any:
        status, data = await self._pool.post(
            instance.address,
            path,
            orjson.dumps(body),
            key=instance.key,
            seconds=self._seconds,
            limit=MAX_ANSWER,
        )
        if status != 200:
            raise Lost(f"{instance.label}: HTTP {status}.")
        return orjson.loads(data)


def _unit(vector: Sequence[float]) -> list[float]:
    length = sum(one * one for one in vector) ** 0.5
    return [float(one) / length for one in vector] if length else [0.0 for _ in vector]
