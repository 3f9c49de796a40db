"""The compiler from documents to plans: names, uses, and all errors at once."""
