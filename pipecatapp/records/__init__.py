"""Notes, secrets and conversations as they are stored; tools and the application read them."""
