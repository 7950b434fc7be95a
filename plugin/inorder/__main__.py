"""``python -m inorder`` is the ``inorder`` command."""

from inorder.cli import main

main()
