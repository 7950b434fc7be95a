"""Traces: what happened to each event, recorded by clients as Parquet, for audits and analytics."""

from inorder.traces.options import Traces

__all__ = ["Traces"]
