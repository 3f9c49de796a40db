"""The keys of callers: what they permit, and how much was used."""
