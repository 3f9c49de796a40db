"""Tools without side effects: they name values."""
