"""Commands for what people keep: schedules, stored tasks, prompts, projects."""
