"""Tools for a project as a whole."""
