"""Tools that read the state of machines, services and experts. They change nothing."""
