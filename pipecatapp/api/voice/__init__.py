"""Talking with the agent."""
