"""Being one of our services: names and ports, settings, logs, health, metrics, a graceful stop."""
