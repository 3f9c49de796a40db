"""One request: context, authorization, the pipeline, the reply, the relay and the account."""
