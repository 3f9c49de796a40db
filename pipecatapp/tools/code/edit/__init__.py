"""Apply a model's answer to the files of the workspace, exactly or not at all."""
