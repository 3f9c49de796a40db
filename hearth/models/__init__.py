"""The model catalogue and the store: known models, their sources and needs, installed files."""
