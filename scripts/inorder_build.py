"""The build backend: that of setuptools, but there is no distribution without the web UI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel", "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]  # fmt: skip

PAGE = Path("webui", "inorder_webui", "static", "index.html")


class NotBuilt(Exception):
    """The page is not there."""


def _check() -> None:
    if not PAGE.is_file():
        raise NotBuilt(f"the web UI is not built ({PAGE} is not there): make webui, or make dist for all of it")


def build_wheel(*args: Any, **kwargs: Any) -> str:
    """Make a wheel. Raises NotBuilt."""
    _check()
    name: str = build_meta.build_wheel(*args, **kwargs)
    return name


def build_sdist(*args: Any, **kwargs: Any) -> str:
    """Make a source distribution, which has the web UI as it is built. Raises NotBuilt."""
    _check()
    name: str = build_meta.build_sdist(*args, **kwargs)
    return name
