"""Operators' access to the workers, over the clients' frames, for the command line and the control plane."""

from inorder_worker.admin.cluster import Cluster
from inorder_worker.admin.states import Automatic, EventState, StuckNumber, TopicState, WorkerState

__all__ = ["Automatic", "Cluster", "EventState", "StuckNumber", "TopicState", "WorkerState"]
