"""What tokens allow: which role may send which frame, and which topics limits cover."""

from __future__ import annotations

from typing import get_args

import pytest

from inorder.errors import Forbidden
from inorder.protocol import wire
from inorder.protocol.access import CHANGES, MAY_SEND, ROLES, Permissions
from inorder.protocol.covering import FilterSet
from inorder.protocol.filters import filter_of
from inorder.protocol.wire import Access, ClientFrame

# The matrix in words, apart from the table that the code has.
EVERYBODY = ["Ping", "Pong", "Failure", "Hello", "Renew", "NameTopics", "AskNumbers", "ReadLog", "ShowLogs", "Report"]
CLIENTS = ["AskHeads", "AskDurable", "CreateTimestamps", "Settle", "Subscribe", "SaveClock"]
LOOKING = ["ShowOrder", "ShowSubscriptions", "ShowReports", "ShowTopics", "ShowOpenNumbers", "FindNumber", "FindEvent"]
LOOKING += ["ShowAutomatic", "ShowWorker"]
CHANGING = ["ChangeOrder", "PinTopics", "ChangeLog", "EndSubscription", "ReleaseNumbers"]
CHANGING += ["ChangeAutomatic", "DrainWorker", "MoveStage"]


def may(role: str, frame: str) -> bool:
    allowed = {
        "client": EVERYBODY + CLIENTS + ["Resolve"],
        "viewer": EVERYBODY + LOOKING,
        "operator": EVERYBODY + LOOKING + CHANGING + ["Resolve"],
        "admin": EVERYBODY + CLIENTS + LOOKING + CHANGING + ["Resolve"],
    }
    return frame in allowed[role]


FRAMES = sorted(each.__name__ for each in get_args(ClientFrame))


def test_every_frame_is_somebodys() -> None:
    assert sorted(each.__name__ for each in MAY_SEND) == FRAMES
    assert sorted(each.__name__ for each in CHANGES) == sorted(CHANGING)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("role", ROLES)
def test_what_each_role_may_send(role: str, frame: str) -> None:
    sent = getattr(wire, frame)
    permissions = Permissions(Access(role))
    if may(role, frame):
        permissions.check_frame(sent)
    else:
        with pytest.raises(Forbidden, match=f"role {role} may not send {frame}, a token with role .*admin may"):
            permissions.check_frame(sent)


def test_a_role_that_nobody_knows_may_nothing() -> None:
    with pytest.raises(Forbidden):
        Permissions(Access("root")).check_frame(wire.Ping)


@pytest.mark.parametrize(
    ("wanted", "allowed", "fits"),
    [
        ("mqtt:a/b", "mqtt:a/b", True),
        ("mqtt:a/b", "mqtt:a/+", True),
        ("mqtt:a", "mqtt:a/#", True),
        ("mqtt:a/b", "mqtt:b/#", False),
        ("mqtt:a/+", "mqtt:a/#", True),
        ("mqtt:a/#", "mqtt:a/#", True),
        ("mqtt:a/b/#", "mqtt:a/#", True),
        ("mqtt:a/#", "mqtt:a/+", False),
        ("mqtt:a/#", "mqtt:a/b/#", False),
        ("mqtt:+/b", "mqtt:a/b", False),
        ("mqtt:a/+", "mqtt:+/b", False),
        ("mqtt:#", "mqtt:+", False),
        ("mqtt:+", "mqtt:#", True),
        ("mqtt:a/+", "mqtt:a", False),
        ("mqtt:$SYS/#", "mqtt:#", False),
        ("mqtt:$SYS/x", "mqtt:#", False),
        ("mqtt:$SYS/+", "mqtt:$SYS/#", True),
        ("redis:news.a", "redis:news.*", True),
        ("redis:news.*", "redis:news.*", True),
        ("redis:news.a*", "redis:news.*", True),
        ("redis:new*", "redis:news.*", False),
        ("redis:[ab]*", "redis:*", True),
        ("redis:[ab]*", "redis:[abc]*", False),
        ("redis:x?", "redis:x*", True),
        ("redis:x*", "redis:x\\*", False),
    ],
)
def test_a_filter_within_another(wanted: str, allowed: str, fits: bool) -> None:
    space, _, text = wanted.partition(":")
    limits = FilterSet([(space, filter_of(space, allowed.partition(":")[2]))])
    assert limits.contains(space, filter_of(space, text)) is fits
    permissions = Permissions(Access("client", subscribe=["other:#", allowed]))
    if fits:
        permissions.check_subscribe(space, filter_of(space, text))
    else:
        with pytest.raises(Forbidden) as refused:
            permissions.check_subscribe(space, filter_of(space, text))
        assert (refused.value.action, refused.value.topic) == ("subscribe", wanted)
        assert refused.value.allowed == ("other:#", allowed)


def test_a_limit_of_many_levels_is_read() -> None:
    permissions = Permissions(Access("client", subscribe=["mqtt:" + "+/" * 199 + "#"]))
    permissions.check_read("mqtt", "a/" * 199)
    with pytest.raises(Forbidden):
        permissions.check_read("mqtt", "a")


def test_limits_of_topics() -> None:
    permissions = Permissions(Access("client", publish=["mqtt:a/#"], subscribe=[]))
    permissions.check_publish("mqtt", "a/b")
    for space, name in (("mqtt", "b"), ("other", "a/b")):
        with pytest.raises(Forbidden, match="it allows mqtt:a/#"):
            permissions.check_publish(space, name)
    with pytest.raises(Forbidden, match="it allows no topics"):
        permissions.check_read("mqtt", "a/b")
    everything = Permissions()
    everything.check_publish("mqtt", "x")
    everything.check_read("mqtt", "x")
    everything.check_subscribe("mqtt", filter_of("mqtt", "#"))


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_looks_does_not_publish(role: str) -> None:
    permissions = Permissions(Access(role))
    with pytest.raises(Forbidden, match=f"role {role} may not publish"):
        permissions.check_publish("mqtt", "a")
    with pytest.raises(Forbidden, match=f"role {role} may not subscribe"):
        permissions.check_subscribe("mqtt", filter_of("mqtt", "a"))
