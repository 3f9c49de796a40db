"""The power manager: wakes machines that sleep when somebody needs one of their models."""
