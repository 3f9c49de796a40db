"""The model catalogue: what can be run, where it comes from, what it needs, what is here."""
