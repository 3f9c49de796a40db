"""Tools that ask a model."""
