"""Topics as they are typed: ``space:topic``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inorder.cli import output
from inorder.cli.failures import CommandFailed, ExitCode

if TYPE_CHECKING:
    from inorder.admin import TopicState
    from inorder.core.wire import TopicInfo, TopicOrder


def name_of(topic: TopicInfo | TopicState) -> str:
    """Return a topic as it is typed."""
    return f"{topic.space}:{topic.name}"


def split(name: str) -> tuple[str, str]:
    """Return space and topic. Raises CommandFailed."""
    space, separator, topic = name.partition(":")
    if not (space and separator and topic):
        shown = output.printable(name)
        raise CommandFailed(f"{shown!r} is not allowed; allowed is space:topic, such as mqtt:orders/eu", ExitCode.USAGE)
    return space, topic


def ids_of(now: TopicOrder, names: list[str]) -> list[int]:
    """Return the ids of topics. Raises CommandFailed for one that there is not."""
    ids = {name_of(info): info.id for info in now.topics}
    for name in names:
        if name not in ids:
            raise CommandFailed(f"there is no topic {output.printable(name)!r} (topics are space:name)", ExitCode.USAGE)
    return [ids[name] for name in names]
