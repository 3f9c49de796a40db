"""Find the definitions of source files."""
