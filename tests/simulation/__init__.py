"""A seeded simulation of the whole core: stages with journals that crash, links, clients, and a broker that delays,
reorders, repeats and loses. Nothing passes between some of them for a while; each has a clock of its own, which leaps
or stands still. One seed decides everything, the topology too, and replays exactly.

First faults and work at random, then faults stop and everything must converge; :mod:`inorder_analytics.checks` judges.

    python -m tests.simulation --seed 1 --runs 1000 [--profile belt] [--json]
"""
