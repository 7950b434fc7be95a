"""The analysis of traces by PySpark: on one machine (``local[*]``) or on a cluster, with the same figures.

``job`` is the whole run: new trace files are ingested (``ingest``, ``store``), then the runs that they touch are
computed (``analysis``) and all runs are put together (``parts``). In between stand transforms, from DataFrames to
DataFrames: ``names`` gives topics and clients numbers, ``interest`` tells who was to be notified of what, ``reception``
is one row for each event and subscriber, ``events`` one for each event, ``pairs`` compares subscribers two by two, and
``figures`` sums up. Only ``session`` starts anything.
"""
