"""Plants small mistakes in modules, one by one, and tells which of them no fast test notices.

``python -m tests.mutants plugin/inorder_worker/sequencer/resuming.py``, or ``make mutants`` with that in ``ARGS``. A
mistake is a statement that is left out, two that are swapped, ``max`` for ``min``, ``<`` for ``<=``, ``and`` for
``or``, a number that is one more. Each is planted in a fork of a process that has imported everything and collected the
tests, where only those run that come by its line, until one fails.
"""
