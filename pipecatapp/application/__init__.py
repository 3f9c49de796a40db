"""What a person or a program can do with an instance: the verbs behind HTTP, shell, voice and MCP.

`container` puts it together. The engine lies below; its types that callers see are in `engine`.
"""
