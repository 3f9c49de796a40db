"""Talking with the agent: sessions, and the process in which pipecat hears, waits and speaks."""
