"""What a run would do: its plan, its bounds, its cached steps and its prompts."""
