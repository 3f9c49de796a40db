"""Tools that make images: by an expert for images, or drawn from data."""
