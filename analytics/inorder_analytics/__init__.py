"""Analytics: the place of the jobs that judge recorded traces (order violations, latency, overhead).

The checks will be plain Python that tests and simulation share; only the jobs over large traces will need PySpark.
It holds nothing yet.
"""
