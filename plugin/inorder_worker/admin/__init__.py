"""For operators: what the command line and the control plane ask of the workers, over the frames that clients use."""

from inorder_worker.admin.cluster import Cluster
from inorder_worker.admin.states import Automatic, EventState, StuckNumber, TopicState, WorkerState

__all__ = ["Automatic", "Cluster", "EventState", "StuckNumber", "TopicState", "WorkerState"]
