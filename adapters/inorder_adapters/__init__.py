"""Adapters: one folder per broker turns its client library into an :class:`inorder.ports.Ens`."""
