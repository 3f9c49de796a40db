"""Tools for the library of stored tasks."""
