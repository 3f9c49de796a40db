"""Routing: the instances that can answer a request, and in which order."""
