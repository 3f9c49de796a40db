"""`/v1/responses`, mapped on chat, and the responses that callers may refer to later."""
