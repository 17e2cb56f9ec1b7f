"""The command line."""

from flowref.cli.main import main

__all__ = ["main"]
