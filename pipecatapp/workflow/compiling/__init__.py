"""From documents to plans: what may be read where, what is used, and every fault at once."""
