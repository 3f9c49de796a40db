"""Finding the faulty function of a failing test."""
