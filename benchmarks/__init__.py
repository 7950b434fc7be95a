"""What ordering costs, beside bare clients on the same brokers: ``python -m benchmarks``, ``make bench``."""
