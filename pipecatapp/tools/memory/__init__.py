"""Tools for notes and for the history of a conversation."""
