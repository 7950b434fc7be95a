"""Where the built front end lies."""

from pathlib import Path

_STATIC = Path(__file__).parent / "static"


def static_path() -> Path | None:
    """Return the folder of the built front end, its `index.html` inside; None if it was not built (`make webui`)."""
    return _STATIC if (_STATIC / "index.html").is_file() else None
