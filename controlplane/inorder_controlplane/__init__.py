"""The control plane: the HTTP API through which operators watch and command workers, and the server of the web UI."""

from inorder_controlplane.app import create_app
from inorder_controlplane.database import Database
from inorder_controlplane.settings import ControlPlaneSettings

__all__ = ["ControlPlaneSettings", "Database", "create_app"]
