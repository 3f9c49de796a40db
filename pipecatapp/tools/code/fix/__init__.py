"""Repairing mechanical mistakes without a model."""
