"""Tools about the run's workspace as a whole: its states, the way back, the result for review."""
