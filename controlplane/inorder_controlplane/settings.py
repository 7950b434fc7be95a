"""The settings of a control plane."""

from __future__ import annotations

from dataclasses import dataclass

from inorder.settings import declaring as declare
from inorder.settings.controlplane import ControlPlaneSection
from inorder.settings.worker import WorkerSection


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlPlaneSettings(ControlPlaneSection):
    """The settings of one control plane: its own section, and the needed ones of the workers. Raises InvalidOption when
    made wrong."""

    lease: float = declare.seconds(WorkerSection.lease, "a worker that shows no sign of life for so long is suspect")
