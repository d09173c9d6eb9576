"""The program ``drfl``: one file per command. Importing it is light, so that help comes at once."""

from drfl.cli.main import main

__all__ = ["main"]
