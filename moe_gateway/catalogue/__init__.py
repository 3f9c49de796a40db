"""What can be asked here, told by the gateway itself: models, experts, keys, the API."""
