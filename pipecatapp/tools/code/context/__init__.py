"""The source code that a model reads before it mends an error."""
