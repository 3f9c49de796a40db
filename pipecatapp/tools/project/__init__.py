"""Tools that look at a project as a whole."""
