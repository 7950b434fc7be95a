"""The clients that are compared: each publishes and receives the same events in the same two processes."""
