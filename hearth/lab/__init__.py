"""Debian hosts in systemd-nspawn containers, with separate network namespaces, on one machine."""
