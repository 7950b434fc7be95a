"""The ordering worker: stages over a SQL journal, served over TCP. Needs the extra ``worker``."""

from inorder.errors import MissingExtra

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ImportError:
    raise MissingExtra("the worker", "worker") from None

from inorder.worker.settings import WorkerSettings
from inorder.worker.worker import Worker, run, set_pace

__all__ = ["Worker", "WorkerSettings", "run", "set_pace"]
