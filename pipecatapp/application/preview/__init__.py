"""Preview of a run: its plan, its bounds, its cached steps and its prompts."""
