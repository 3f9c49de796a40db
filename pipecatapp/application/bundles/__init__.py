"""Bundles: documents of one instance in a signed file, for another one."""
