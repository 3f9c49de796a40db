"""Tools that turn a planner's typed answers into layers of a workflow, within bounds."""
