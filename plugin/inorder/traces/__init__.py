"""Traces: what happened to each event, recorded by clients as Parquet, for audits and analytics."""
