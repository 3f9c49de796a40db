"""Jobs of Nomad: planned, registered as planned, and watched until they run."""
