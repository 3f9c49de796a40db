"""Tools that read and write files of the run's own workspace."""
