"""A run while it runs."""
