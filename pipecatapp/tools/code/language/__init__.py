"""Identify the language of texts and files."""
