"""Chaos with real processes: workers, clients and a broker, all TCP through fault proxies, faults drawn from a seed.

A seed fixes the plan: which fault comes when, to whom and for how long. It does not fix what the processes do
meanwhile, nor how their steps interleave: a run is no replay of another one with the same seed, only an equal trial.
What the run was is recorded at its edges, by the client processes, and judged by the checks of the protocol.
"""
