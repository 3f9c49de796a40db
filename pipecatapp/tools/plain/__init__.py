"""Tools that touch nothing: they give names to values."""
