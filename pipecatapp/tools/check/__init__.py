"""Checks of a project that need no program of its own."""
