"""The ``inorder`` command. Its libraries are an extra; without them it says which one to install."""

from inorder_cli.entry import main

__all__ = ["main"]
