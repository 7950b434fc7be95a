"""The routes: one module with a ``router`` for each area, listed in ``registry``."""
