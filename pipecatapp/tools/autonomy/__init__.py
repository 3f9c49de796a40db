"""Tools with which a run writes, checks and starts workflows of its own."""
