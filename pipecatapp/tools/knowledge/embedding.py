"""Embeddings of texts, by an expert of the gateway."""

from collections.abc import Sequence
from typing import Any, Final

from pipecatapp.tools.cluster.directory import Directory, ExpertHealth, GatewayAway

SECONDS: Final = 120.0
"""For one request; a small computer needs seconds for a long text."""

REFUSED: Final = (400, 413, 422)


class EmbeddingsUnavailable(Exception):
    """Texts cannot be embedded now; the message is a sentence for the status of a source."""


class TextRefused(EmbeddingsUnavailable):
    """The expert works, and does not accept one of the texts."""


class EmbeddingModel:
    """The expert whose vectors the index has. `wanted`: the expert of the settings, or empty."""

    def __init__(self, directory: Directory, wanted: str = "") -> None:
        self._directory, self.wanted = directory, wanted

    async def choose(self, current: str) -> str:
        """Return the expert to use: that of the settings, else `current`, else the cheapest.

        Vectors of different models cannot be compared, so the model of an index does not change
        because another expert is there. Raises `EmbeddingsUnavailable`.
        """
        healthy = [one for one in await self._directory.experts() if one.healthy and one.embeddings]
        name = self.wanted or current
        if name:
            if not any(name in (one.name, one.model, *one.aliases) for one in healthy):
                raise EmbeddingsUnavailable(
                    f"The expert {name!r}, which embeds the passages, is not available."
                )
            return name
        if not healthy:
            raise EmbeddingsUnavailable("No expert of this home has embeddings.")
        return min(healthy, key=_order).name

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """Return a vector for each text. Raises `EmbeddingsUnavailable`.

        `input_type` is for models that were trained with different prefixes for questions and
        passages; other servers ignore it.
        """
        kind = "query" if query else "passage"
        body = {"model": model, "input": list(texts), "input_type": kind}
        try:
            answer = await self._directory.ask_gateway(
                "POST", "/v1/embeddings", body, seconds=SECONDS
            )
        except GatewayAway as error:
            raise EmbeddingsUnavailable(str(error)) from error
        if answer.status_code in REFUSED:
            raise TextRefused(f"The expert {model!r} refused a text: {_reason(answer)}")
        if not answer.is_success:
            raise EmbeddingsUnavailable(f"The expert {model!r} failed: {_reason(answer)}")
        try:
            data = sorted(answer.json()["data"], key=lambda one: one["index"])
            vectors = [[float(number) for number in one["embedding"]] for one in data]
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingsUnavailable(f"The expert {model!r} returned no vectors.") from error
        if len(vectors) != len(texts):
            raise EmbeddingsUnavailable(f"The expert {model!r} returned too few vectors.")
        return vectors


def _order(expert: ExpertHealth) -> tuple[float, str]:
    return expert.cost, expert.name


def _reason(answer: Any) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}."
