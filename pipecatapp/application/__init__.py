"""Operations on an instance, shared by HTTP, shell, voice and MCP.

`container` creates the services. Types of the engine that callers see are in `engine`.
"""
