"""Home Assistant: exact commands to its devices, and the HTTP API that connects it to Hearth."""
