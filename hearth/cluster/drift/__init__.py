"""Drift: how the live cluster differs from its declaration, and the repairs."""
