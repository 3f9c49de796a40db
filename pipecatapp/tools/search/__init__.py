"""Tools that search the web and the files of a workspace."""
