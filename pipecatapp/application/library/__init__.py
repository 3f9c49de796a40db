"""Prompts, stored tasks, projects and imported files."""
