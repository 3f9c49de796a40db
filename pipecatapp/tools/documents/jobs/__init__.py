"""Programs that handle documents in the sandbox, where the rest of Hearth is not installed.

They import the standard library, the packages of the extra `documents`, and each other.
"""
