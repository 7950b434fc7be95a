"""What clients and workers say to each other, without I/O: frames, stamps, names and filters (docs/PROTOCOL.md)."""
