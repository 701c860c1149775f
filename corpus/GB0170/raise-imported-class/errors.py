class BadBatch(RuntimeError):
    """The batch cannot be used."""
