"""`/v1/responses`, mapped on chat: without memory, for every expert and agent."""
