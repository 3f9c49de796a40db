"""A text, spoken into a file; a recording, written down."""
