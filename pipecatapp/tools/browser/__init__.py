"""A headless browser for workflows and agents."""
