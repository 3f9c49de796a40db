"""Runs that start by themselves: when, what was missed, and who starts them."""
