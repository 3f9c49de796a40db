"""OpenAI's Realtime API: a conversation as events on a WebSocket, by voice or by text."""
