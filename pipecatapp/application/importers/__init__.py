"""Reads documents of other programs as workflows; they are imported, not executed."""
