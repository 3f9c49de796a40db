"""Wyoming: satellites and Home Assistant speak with the agent, over plain TCP."""
