"""The web UI: the place of the built front end and of the code that serves it.

The front end will talk to the control plane's HTTP API only, so this package imports nothing of inorder. It holds
nothing yet.
"""
