"""The worker's SQL store: journal, logs, tokens, audit, analyses, backup, verification (extra ``worker``)."""

from inorder.errors import MissingExtra

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ImportError:
    raise MissingExtra("the worker", "worker") from None
