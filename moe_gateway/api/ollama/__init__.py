"""Ollama's API (`/api/chat` and its family), mapped on chat, completions and embeddings."""
