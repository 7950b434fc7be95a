"""The messages between clients and workers, without I/O: frames, stamps, names and filters (docs/PROTOCOL.md)."""
