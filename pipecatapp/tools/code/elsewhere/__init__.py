"""Places where programs run that are not this machine's sandbox: Nomad and Docker."""
