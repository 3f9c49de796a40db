"""One OpenAI address for all experts."""
