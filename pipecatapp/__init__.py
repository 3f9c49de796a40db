import hearth.service  # noqa: F401  # before structlog, which would load all of rich
