"""A stage limits each owner's topics that have not ended, and durable subscriptions, which stay while nobody is
connected. Existing ones are never refused, so a limit may be lowered. Clients without a token have one owner
together, with an empty name."""

from __future__ import annotations

from collections.abc import Iterable

from inorder.protocol.wire import MAX_FRAME_BYTES
from inorder_worker.sequencer.commands import ChangeSubscription
from inorder_worker.sequencer.sequencing import filter_bytes
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import Session, TopicManager

BYTES_EACH = 16 * 1024
"""Bytes of filters for each durable subscription that an owner may have, all of them together; the filters of one frame
are always within it."""
NAME_BYTES_EACH = 256
"""Bytes of names for each topic that an owner may make, all of them together: filters are tried on all of a name."""
NAME_BYTES = 1024 * 1024
"""So many it may have anyhow."""


def topics_refusal(state: StageState, session: Session | None, names: Iterable[tuple[str, str]]) -> str:
    """Return why these names may not all be topics, for the session's owner; an empty text: they may."""
    if session is None or not session.max_topics:
        return ""
    made, most = state.made.get(session.owner, 0), session.max_topics
    new = {each for each in names if (known := state.by_name.get(each)) is None or known in state.endings}
    if new and made + len(new) > most:
        return f"{_who(session)} may make {most} topics; it has made {made}, and {len(new)} more are too many"
    size, more, room = state.made_bytes.get(session.owner, 0), _name_bytes(new), max(NAME_BYTES, most * NAME_BYTES_EACH)
    if new and size + more > room:
        who = _who(session)
        return f"{who} may make topics with {room} bytes of names; it has made {size}, and {more} more are too many"
    return ""


def topics_made(state: StageState, session: Session | None, names: Iterable[tuple[str, str]]) -> str | None:
    """Count new topics for the session's owner, and return that; ``None``: they do not count."""
    if session is None or not (session.owner or session.max_topics):
        return None
    _count(state, session.owner, list(names), 1)
    return session.owner


def topic_ended(state: StageState, manager: TopicManager) -> None:
    """Count a topic no more."""
    if manager.owner is not None:
        _count(state, manager.owner, [(manager.space, manager.name)], -1)


def _count(state: StageState, owner: str, names: list[tuple[str, str]], by: int) -> None:
    state.made[owner] = state.made.get(owner, 0) + by * len(names)
    state.made_bytes[owner] = state.made_bytes.get(owner, 0) + by * _name_bytes(names)


def _who(session: Session) -> str:
    return "the token" if session.owner else "the group of clients without a token"


def _name_bytes(names: Iterable[tuple[str, str]]) -> int:
    return sum(len(name.encode()) for _, name in names)


def subscription_refusal(state: StageState, session: Session | None, wanted: ChangeSubscription) -> str:
    """Return why a durable subscription may not be kept, for the session's owner; an empty text: it may."""
    if session is None or not session.max_subscriptions or not (wanted.durable and wanted.filters):
        return ""
    known, most = state.overlaps.get(wanted.client_id), session.max_subscriptions
    is_kept = known is not None and known.durable and bool(known.filters)
    count, size = state.overlaps.kept(session.owner)
    if not is_kept and count >= most:
        return f"{_who(session)} may have {most} durable subscriptions; it has {count}, and one more is too many"
    more = filter_bytes(wanted.filters) - (filter_bytes(known.filters) if known is not None and is_kept else 0)
    room = max(MAX_FRAME_BYTES, most * BYTES_EACH)
    if more <= 0 or size + more <= room:
        return ""
    return (
        f"{_who(session)} may have {room} bytes of filters in its durable subscriptions; it has {size}, and {more} "
        "more are too many"
    )
