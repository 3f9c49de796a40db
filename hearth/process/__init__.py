"""Child processes: start them, end them in order, and describe how they ended."""
