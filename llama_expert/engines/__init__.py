"""The engines that can serve a model, one module each; `llama_expert.engine` chooses."""
