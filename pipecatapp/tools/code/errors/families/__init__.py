"""One module for each kind of program."""
