"""Tools of MCP servers: programs that a person sets up, spoken to over stdin and stdout."""
