"""Voice conversations with the agent: sessions, and the worker process with pipecat's pipeline."""
