"""Tools for the library of prompts."""
