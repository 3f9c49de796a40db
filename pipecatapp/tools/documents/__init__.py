"""Tools that read, write, check and render documents. Parsers and writers run in the sandbox."""
