"""The control plane: the place of the HTTP API through which operators watch and command workers.

It will read the store, command workers and serve REST, live data, metrics and health checks. It holds nothing yet.
"""
