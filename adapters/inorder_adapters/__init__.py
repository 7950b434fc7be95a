"""Adapters: one folder per broker, each turning its client library into an :class:`inorder.ports.Ens`."""
