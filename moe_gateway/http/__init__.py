"""The connections to the servers: our own HTTP client (decision 0020)."""
