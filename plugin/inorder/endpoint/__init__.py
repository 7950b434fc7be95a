"""A client's side of the protocol, without I/O: its publisher, its clock, and the order in which events leave it.

:class:`~inorder.endpoint.endpoint.Endpoint` is all of it in one machine: inputs in, effects out. Nothing here awaits,
sleeps, logs or reads a clock of its own; the parts are told the time, which never decreases.
"""
