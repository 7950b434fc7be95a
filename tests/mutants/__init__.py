"""Plants small mistakes in a module, one by one, and tells which of them no fast test notices.

``python -m tests.mutants plugin/inorder_worker/sequencer/resuming.py``, or ``make mutants`` with that in ``ARGS``. A
mistake is a statement that is left out, two that are swapped, ``max`` for ``min``, ``<`` for ``<=``, ``and`` for
``or``, a number that is one more. Each is planted in a process of its own, where only the tests that come by its line
are run, the quickest first.
"""
