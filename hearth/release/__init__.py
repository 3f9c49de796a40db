"""Archives that the controller copies to the machines of a cluster: Hearth's code, its packages
and pinned programs."""
