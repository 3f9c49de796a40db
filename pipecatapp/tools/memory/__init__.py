"""Tools that keep and find what was said: notes, and the history of a conversation."""
