"""Access control of Consul and Nomad: set up with our own tokens, then kept as declared."""
