"""Every metric in plain Python: the reference for other implementations, and quick enough for traces that fit into
memory. What each figure means stands in :mod:`inorder_analytics.results`."""

from inorder_analytics.plain.measuring import WINDOW_S, measure, measure_rows
from inorder_analytics.plain.recorded import Event, Recorded, recorded_runs

__all__ = ["WINDOW_S", "Event", "Recorded", "measure", "measure_rows", "recorded_runs"]
