"""Workflow documents: read, edited, renamed, composed and stored."""
