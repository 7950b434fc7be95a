"""The ordering worker: stages over a SQL journal, served over TCP. Needs the extra ``worker``."""

from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.worker import Worker, run, set_pace

__all__ = ["Worker", "WorkerSettings", "run", "set_pace"]
