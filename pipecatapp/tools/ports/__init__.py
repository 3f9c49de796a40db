"""Ports to the bug tracker, the CI and the source control of an organisation, and their tools."""
