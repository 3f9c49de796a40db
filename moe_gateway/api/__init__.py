"""Routes that the gateway itself answers: models, experts, keys, and the description of the API."""
