"""What the controller brings to the machines of a cluster: our own code, and pinned archives."""
