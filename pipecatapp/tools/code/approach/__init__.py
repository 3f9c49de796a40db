"""How a model is asked for a change of code: the edit format, and how many patches."""
