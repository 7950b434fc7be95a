"""The worker's SQL store: journal, event logs, tokens, audit and analyses, with backup and verification. Needs the
extra ``worker``."""

from inorder.errors import MissingExtra

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ImportError:
    raise MissingExtra("the worker", "worker") from None
