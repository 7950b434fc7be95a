"""``inorder demo``: the same workload on real brokers, first without inorder, then with it."""
