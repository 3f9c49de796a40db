"""Routes for stored documents: schedules, tasks, prompts, projects."""
