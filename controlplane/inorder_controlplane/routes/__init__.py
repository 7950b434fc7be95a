"""The routes: a module with a ``router`` for each area, listed in ``registry``."""
