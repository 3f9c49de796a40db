"""Tools that check work against its plan and its past."""
