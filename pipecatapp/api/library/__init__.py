"""What people keep: schedules, stored tasks, prompts, projects."""
