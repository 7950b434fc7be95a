"""The entry point of the ``memory`` scheme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inorder.ports import Ens
from inorder_adapters.memory.ens import MemoryEns
from inorder_adapters.memory.options import parse
from inorder_adapters.url_options import check_client_id


def open_ens(url: str, *, client_id: str, options: Mapping[str, Any]) -> Ens:
    """Make an unconnected ENS on the in-process broker that the URL names. Raises InvalidOption."""
    name, parsed = parse(url, options)
    return MemoryEns(name, parsed, check_client_id(client_id))
