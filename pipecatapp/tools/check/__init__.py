"""Tools that check the structure of a project, and work against its plan and its past."""
