"""A client's side of the protocol, without I/O: its publisher, its clock, and the order in which events leave it.

Nothing here awaits, sleeps, logs or reads a clock; time is an argument and never decreases.
"""
