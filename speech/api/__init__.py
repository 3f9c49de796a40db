"""The routes of a speech service, and what holds for all of them."""
