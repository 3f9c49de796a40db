"""The routes that official OpenAI clients call."""
