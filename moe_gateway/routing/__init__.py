"""Which instances may answer a request, and in which order: what a body needs, who can."""
