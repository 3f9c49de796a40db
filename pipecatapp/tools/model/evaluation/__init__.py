"""Measure what a model can do on this machine."""
