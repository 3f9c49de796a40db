"""Fix memory: changes that made a failing test pass, offered again for the same error."""
