"""Routes for operations on the whole state."""
