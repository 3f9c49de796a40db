"""`/mcp`: the workflows of an instance as tools of the Model Context Protocol."""
