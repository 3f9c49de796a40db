"""The paths that servers answer, with the kind of their requests (the fast path)."""

from typing import Final, Literal

Kind = Literal["chat", "text", "embeddings", "rerank", "images", "stt", "tts"]

FAST_PATHS: Final[dict[str, Kind]] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/images/generations": "images",
    "/v1/responses": "chat",
    "/v1/messages": "chat",
    "/api/chat": "chat",
    "/api/generate": "chat",
    "/api/embed": "embeddings",
    "/api/embeddings": "embeddings",
    "/v1/audio/transcriptions": "stt",
    "/v1/audio/speech": "tts",
}

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
REALTIME: Final = "/v1/realtime"
OLLAMA: Final = ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings")
"""Ollama's paths that an expert answers."""

SPEECH: Final = frozenset(("stt", "tts"))
