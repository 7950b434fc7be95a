"""Topics and filters as users type them: ``space:topic``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inorder_cli import output
from inorder_cli.failures import CommandFailed, ExitCode

if TYPE_CHECKING:
    from inorder.protocol.wire import TopicOrder


def split(text: str, allowed: str = "space:topic, such as mqtt:orders/eu", option: str = "") -> tuple[str, str]:
    """Split a typed text (an option's value) into space and topic, or space and filter. Raises CommandFailed."""
    space, separator, name = text.partition(":")
    if not (space and separator and name):
        wrong = f"{option} {output.printable(text)!r}".lstrip()
        raise CommandFailed(f"{wrong} is not allowed; allowed is {allowed}", ExitCode.USAGE)
    return space, name


def ids_of(now: TopicOrder, names: list[str]) -> list[int]:
    """Return the ids of topics. Raises CommandFailed for one that there is not."""
    ids = {info.label: info.id for info in now.topics}
    for name in names:
        if name not in ids:
            raise CommandFailed(f"there is no topic {output.printable(name)!r} (topics are space:name)", ExitCode.USAGE)
    return [ids[name] for name in names]
