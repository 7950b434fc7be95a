"""``python -m inorder`` is the ``inorder`` command."""

from inorder_cli import main

main()
