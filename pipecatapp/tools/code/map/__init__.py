"""A map of the definitions of a repository, the most relevant first."""
