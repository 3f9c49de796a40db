"""HTTP API of the agent service: one module per resource."""
