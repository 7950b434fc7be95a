"""The web UI: the built front end, and where it lies.

Its source is in webui/app and talks to the control plane's HTTP API only, so this package imports nothing of inorder.
"""

from inorder_webui.location import static_path

__all__ = ["static_path"]
