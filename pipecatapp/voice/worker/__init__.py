"""The voice worker: a process of its own, the only one that imports pipecat."""
