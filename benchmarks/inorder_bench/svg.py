"""Charts as SVG: what all of them share, and the command that draws one of a history."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

from inorder.errors import InvalidOption

STYLE = (
    "svg{--ink:#1a2230;--dim:#5b6675;--faint:#d5dae1;--paper:#fff;--blue:#2b6cb0;--brown:#b7791f}"
    "@media(prefers-color-scheme:dark)"
    "{svg{--ink:#e4e9f0;--dim:#9aa6b6;--faint:#343f4d;--paper:#12171f;--blue:#63a4e6;--brown:#d8a347}}"
    ".paper{fill:var(--paper)}text{font:12px sans-serif;fill:var(--ink)}.title{font-weight:bold}"
    ".tick{fill:var(--dim);text-anchor:middle}.grid{stroke:var(--faint)}"
)


def page(width: int, height: int, title: str, description: str, style: str, parts: Iterable[str]) -> str:
    """Return a chart. ``title`` and ``description`` are for those who do not see it; ``style``: beside what all share;
    sizes in pixels."""
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img"'
        f' aria-labelledby="title description"><title id="title">{escape(title)}</title>'
        f'<desc id="description">{escape(description)}</desc><style>{STYLE}{style}</style>'
    )
    return "\n".join([begin, '<rect class="paper" width="100%" height="100%"/>', *parts, "</svg>", ""])


def command(module: str, draw: Callable[[Path], str]) -> None:
    """Draw the history that is named on the command line into the file that is named behind it. Exit code 2: there is
    no such history, it is damaged, or the file cannot be written."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Draw what was measured.")
    parser.add_argument("history", metavar="HISTORY", type=Path, help="a file that --history wrote")
    parser.add_argument("svg", metavar="SVG", type=Path, help="where to; a chart that is there is replaced")
    options = parser.parse_args()
    try:
        chart = draw(options.history)
        options.svg.write_text(chart, encoding="utf-8")
    except InvalidOption as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(str(InvalidOption("SVG", str(options.svg), f"a file that can be written ({error.strerror})")))
