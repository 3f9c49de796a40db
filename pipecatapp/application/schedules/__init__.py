"""Scheduled runs: their times, missed starts, and the process that starts them."""
