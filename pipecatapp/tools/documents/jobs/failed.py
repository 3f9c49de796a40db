"""The error of a program whose text is for people."""


class JobFailed(Exception):
    """The document cannot be handled; the text is the reason, as the end of a sentence."""
