"""Documents and what they are made of: their text, layers, tools."""
