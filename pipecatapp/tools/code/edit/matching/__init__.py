"""Find the lines of a file that an edit means."""
