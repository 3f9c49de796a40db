"""The voice worker: a separate process, the only one that imports pipecat."""
