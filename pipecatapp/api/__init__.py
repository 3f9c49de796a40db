"""What the agent service answers over HTTP: one module per noun."""
