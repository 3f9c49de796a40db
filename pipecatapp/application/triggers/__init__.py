"""Triggers: what starts a workflow when something happens outside, such as a webhook."""
