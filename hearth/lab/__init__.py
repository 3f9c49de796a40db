"""Real hosts on one machine: Debian under systemd-nspawn, in network namespaces of their own."""
