"""Split an answer into edits and prose."""
