"""The source code that a model reads before it corrects an error."""
