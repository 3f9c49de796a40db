"""Workflow documents: read from files, edited, renamed, composed and kept."""
