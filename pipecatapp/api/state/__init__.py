"""What is done with the state as a whole."""
