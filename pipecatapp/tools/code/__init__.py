"""Tools that run programs, always in the sandbox."""
