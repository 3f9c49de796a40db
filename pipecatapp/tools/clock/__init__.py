"""Tools for time."""
