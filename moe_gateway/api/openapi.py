"""`GET /openapi.json`: the API as a document (OpenAPI 3.1), with the paths of the fast path.

FastAPI describes its own routes; the others are described here, as far as the gateway reads them.
Fields that it passes on unread are open (`additionalProperties`).
"""

from typing import Any, Final

from fastapi import FastAPI

from moe_gateway.api.ollama.routes import PATHS as OLLAMA_PATHS
from moe_gateway.endpoints import OLLAMA

Json = dict[str, Any]

ERROR: Final[Json] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
OF_ANTHROPIC: Final = "/v1/messages"
ANTHROPIC_ERROR: Final[Json] = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
        "request_id": {"type": "string"},
    },
}
OLLAMA_ERROR: Final[Json] = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}
STATUSES: Final = {
    400: "The request is not valid, or no expert supports it",
    401: "No valid key",
    403: "This key may not do that",
    404: "There is no such model or path",
    405: "Another method is meant",
    408: "The request came too slowly",
    409: "The name is taken",
    413: "The request is too large",
    415: "The body is of another type, or compressed",
    422: "The model's server refuses the request",
    429: "Too many requests or tokens: see Retry-After",
    500: "The model or the gateway failed",
    502: "The model broke off",
    503: "Nobody is ready: see Retry-After",
    504: "The model was silent for too long",
}
ALWAYS: Final = (400, 401, 403, 404, 405, 413, 415)
HOT_STATUSES: Final = (400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500, 502, 503, 504)

NAME: Final[Json] = {"type": "string", "description": "A model; see /v1/models"}
STREAMS: Final[Json] = {"type": ["boolean", "null"], "description": "Answer with events"}


def _body(required: list[str], **properties: Json) -> Json:
    fields: Json = {"model": NAME} | properties
    return {
        "type": "object",
        "required": ["model", *required],
        "properties": fields,
        "additionalProperties": True,
    }


MESSAGES: Final[Json] = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant"]},
            "content": {"type": "string"},
        },
    },
}
TEXTS: Final[Json] = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
    ]
}
ITEMS: Final[Json] = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "minItems": 1, "items": MESSAGES["items"]},
    ]
}
TURNS: Final[Json] = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"enum": ["user", "assistant"]},
            "content": {"type": "string"},
        },
    },
}
OLLAMA_TURNS: Final[Json] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"enum": ["system", "user", "assistant", "tool"]},
            "content": {"type": "string"},
        },
    },
}
OPTIONS: Final[Json] = {"type": ["object", "null"], "additionalProperties": True}
SOUND: Final[Json] = {"type": "string", "format": "binary"}

HOT_BODIES: Final[dict[str, tuple[str, str, Json]]] = {
    "/v1/chat/completions": (
        "Answer a conversation",
        "application/json",
        _body(["messages"], messages=MESSAGES, stream=STREAMS),
    ),
    "/v1/completions": (
        "Go on with a text",
        "application/json",
        _body(["prompt"], prompt={"type": "string"}, stream=STREAMS),
    ),
    "/v1/embeddings": (
        "Vectors of texts",
        "application/json",
        _body(["input"], input=TEXTS, encoding_format={"enum": ["float", "base64"]}),
    ),
    "/v1/rerank": (
        "Rank texts by how well they fit a question",
        "application/json",
        _body(
            ["query", "documents"],
            query={"type": "string"},
            documents={"type": "array", "items": {"type": "string"}, "minItems": 1},
            top_n={"type": ["integer", "null"], "minimum": 1},
        ),
    ),
    "/v1/images/generations": (
        "Images of a description",
        "application/json",
        _body(
            ["prompt"],
            prompt={"type": "string"},
            n={"type": ["integer", "null"], "minimum": 1},
            size={"type": ["string", "null"]},
            response_format={"enum": ["b64_json", "url", None]},
        ),
    ),
    "/v1/responses": (
        "Answer a conversation, as a response",
        "application/json",
        _body(
            ["input"],
            input=ITEMS,
            instructions={"type": ["string", "null"]},
            previous_response_id={"type": ["string", "null"]},
            store={"type": ["boolean", "null"]},
            stream=STREAMS,
        ),
    ),
    OF_ANTHROPIC: (
        "Answer a conversation, in Anthropic's form",
        "application/json",
        _body(
            ["messages", "max_tokens"],
            messages=TURNS,
            max_tokens={"type": "integer", "minimum": 1},
            system={"type": "string"},
            stream=STREAMS,
        ),
    ),
    "/api/chat": (
        "Answer a conversation, in Ollama's form",
        "application/json",
        _body([], messages=OLLAMA_TURNS, stream=STREAMS, options=OPTIONS),
    ),
    "/api/generate": (
        "Answer a prompt, in Ollama's form",
        "application/json",
        _body([], prompt={"type": "string"}, stream=STREAMS, options=OPTIONS),
    ),
    "/api/embed": (
        "Vectors of texts, in Ollama's form",
        "application/json",
        _body(["input"], input=TEXTS),
    ),
    "/api/embeddings": (
        "The vector of a text, in Ollama's older form",
        "application/json",
        _body(["prompt"], prompt={"type": "string"}),
    ),
    "/v1/audio/transcriptions": (
        "The words of a recording",
        "multipart/form-data",
        _body(["file"], file=SOUND),
    ),
    "/v1/audio/speech": (
        "A text, spoken",
        "application/json",
        _body(["input"], input={"type": "string"}, voice={"type": "string"}),
    ),
}
KINDS: Final = {
    "/v1/images/generations": ("application/json",),
    **dict.fromkeys(OLLAMA, ("application/json", "application/x-ndjson")),
    "/v1/audio/transcriptions": ("application/json", "text/plain", "text/event-stream"),
    "/v1/audio/speech": ("audio/wav", "audio/mpeg", "application/octet-stream"),
}


def document(app: FastAPI, version: str) -> Json:
    """The whole document."""
    spec: Json = FastAPI.openapi(app)
    spec["info"] = {
        "title": "Hearth",
        "version": version,
        "description": "OpenAI's, Anthropic's and Ollama's API for all models of the house, and"
        " what is ours beside them.",
    }
    spec["security"] = [{"key": []}]
    components = spec.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    components.setdefault("schemas", {}).update(
        Error=ERROR, AnthropicError=ANTHROPIC_ERROR, OllamaError=OLLAMA_ERROR
    )
    for name in ("HTTPValidationError", "ValidationError"):  # Of FastAPI; no answer has them.
        components["schemas"].pop(name, None)
    for path, operations in spec["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"] |= _errors((*ALWAYS, 404, 409), path)
    for path, (summary, content_type, body) in HOT_BODIES.items():
        spec["paths"][path] = {"post": _hot(path, summary, content_type, body)}
    for path, summary in (
        ("/health", "Whether an expert is ready"),
        ("/health/live", "Whether the gateway answers"),
        ("/metrics", "Figures for Prometheus"),
    ):
        spec["paths"][path] = {"get": _open(path, summary)}
    return spec


def _hot(path: str, summary: str, content_type: str, body: Json) -> Json:
    kinds = KINDS.get(path, ("application/json", "text/event-stream"))
    return {
        "summary": summary,
        "tags": [_family(path)],
        "requestBody": {"required": True, "content": {content_type: {"schema": body}}},
        "responses": {
            "200": {"description": "The answer", "content": {kind: {} for kind in kinds}},
            **_errors(HOT_STATUSES, path),
        },
    }


def _open(path: str, summary: str) -> Json:
    kind = "text/plain" if path == "/metrics" else "application/json"
    told = {"description": summary, "content": {kind: {}}}
    return {
        "summary": summary,
        "tags": ["service"],
        "security": [],
        "responses": {"200": told, "503": told, **_errors((405,), path)},
    }


def _family(path: str) -> str:
    """Return whose API a path belongs to."""
    if path in OLLAMA or path in OLLAMA_PATHS:
        return "ollama"
    return "anthropic" if path.startswith(OF_ANTHROPIC) else "openai"


def _errors(statuses: tuple[int, ...], path: str) -> Json:
    name = {"anthropic": "AnthropicError", "ollama": "OllamaError"}.get(_family(path), "Error")
    schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    return {
        str(status): {
            "description": STATUSES[status],
            "content": {"application/json": schema},
        }
        for status in statuses
    }
