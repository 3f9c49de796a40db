"""Tools for the branches of a run, in the run's own git directory."""
