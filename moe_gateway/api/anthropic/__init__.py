"""`/v1/messages`, Anthropic's API, mapped on chat for every expert and agent."""
