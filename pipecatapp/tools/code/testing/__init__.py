"""Running the tests of a project."""
