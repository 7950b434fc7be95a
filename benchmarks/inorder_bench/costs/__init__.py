"""What developers measure: how costs grow, what recording costs, analyses, and a guard of the hot paths."""
