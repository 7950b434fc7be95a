"""What developers measure: how costs grow, what recording costs, analyses, and a guard: ``python -m benchmarks``."""
