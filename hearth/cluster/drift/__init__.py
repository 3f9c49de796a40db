"""Drift: how the live cluster differs from what was declared, and what would mend it."""
