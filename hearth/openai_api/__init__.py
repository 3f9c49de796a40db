"""The OpenAI wire protocol: types, event stream, errors, a client, and a scripted model server."""
