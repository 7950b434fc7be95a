"""Analytics: judgement of recorded runs (order violations, latency, overhead).

``checks`` are plain Python that tests and simulation share; only jobs over large traces will need PySpark.
"""
