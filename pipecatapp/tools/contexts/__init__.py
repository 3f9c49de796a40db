"""Tools that propose further contexts for the steps of a plan."""
