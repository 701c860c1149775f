"""Find the graph breaks of torch.compile, and propose source patches that are proven to work."""

__version__ = "0.1.0"


class GbfixError(Exception):
    """Something to tell the user in one clear line: what is wrong, where, and what to do."""
