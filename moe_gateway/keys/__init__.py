"""Who may call, what they may ask, and what they have used."""
