"""Storage of notes, secrets and conversations, for tools and the application."""
