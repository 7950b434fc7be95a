"""Snapshots of a stage: what is in them, and what is made again from it."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec
from tests.core.cluster import Cluster, wild

from inorder_worker.sequencer.sequencing import Group
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import StageData

STORED = (
    "eNrVVT+P2zYUJ5nLniFzESBD104FOmXt1K+gUuI7mziJVEnK9m1ygHbJIivN0KDDuac/53M6dOxm6G4pAucTBDcXHfIV2kdZh7vDxSjQoWhlQX"
    "wk3x/+fu/x+Yo8qaUSMKN1pDPl2JkF56Qa2R+3f3y9/fTR8M0+I2+f/fqDf16/ffbbTiDvyOcf8neEfney/erJqdLT7YPfKyejI9Y4ncrIllfk"
    "k5+koLVNeQTLpFI8gSWvreMjII3KkhAM6U1IcyjjGARpQzyIANG1BhI9AXFJzqUKUn4cay66KuQW8moMHFUNRNoIm1dGCyB1ws2RLVo/BNyRFm"
    "apNOjyzSAEvW3deyVtDxiFcyliCKxUEaBsAwPOK3dNrEcjHFc4BofSWEfOvOidbBojBdKUryKtcC9BP9VES0FWPORKaOUXYu6A7ChgdykIdxTQ"
    "gQI2sLajgP0DCp7T18uUUkYLgknoOuanjLHNbtoTxHYELUqaX3O0pV/8CyzN2Z9/z1ODSEC5hS9Ba6VW9uUVebyKYomrgRTLdI3BuVHc4SY9jf"
    "WUtlzZKRhEXzLKSsaqzIKY95JOQT3H5Q1ONj68ggiBXNQ7DK2TCejMYWmvEI7Xxs2zhM96mdQhjLiiTWqQB9u1E51FYxB5racKzMm5V9wVOfnF"
    "yzYLbWRk6g9nSX0Ya21Ii9++FFcpt3iyQCtyF9RsP6i8B5P3QPL/LIDj/x+AaoRlV/x8R798sTcp7QSxoMBavJ4O5cX3y+QlXmGY8cgtw4ublt"
    "XggpzAgtVpzKUqVjFWPxh/BWhJWSsyw8MYunqEWuoayYu9dF6Hptehyz40H0LzC9LPn1bJN84tn94/CQa9d5R8zzF8S4phQZuR0Vlq5+zVJbmk"
    "DF9yiTz25nbx7anIYPvhy9t01X0a6MdZqyyqzcnDBlMd6tmcvCrpe/LoYDmj9ONwbjHbIYCi9Feb5F1xUZyUrLc93md7Q8V90wdDWHYvgd2CFc"
    "WN4sF78pj6dor9lBYF6QjZEBy68uGww/zv9s6Z717IppiTgxobMhgMve6FAFIdjel6rBOww6SxU+mi8aZKpbLFmyn+B+tp0Bc8WfmSxUrFoq1N"
    "FoMtmijW0ZHNVzxzOkF+o00NPs3Fuh+GtryO4dChkzF6K6qEC8hvsk7O/UIQHjuw+V+UV2H0"
)
"""The bottom stage of :func:`_busy` as the first stores have it."""


def _busy() -> list[Stage]:
    cluster = Cluster({"a": 0, "b": 1})
    for client in ("p", "x", "y"):
        cluster.open(client)
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", wild("#"))
    cluster.subscribe("x", "b")
    cluster.stamp("p", "b")
    cluster.request("p", "b")
    return cluster.stages


def test_a_snapshot_restores_to_the_same_behaviour() -> None:
    for old in _busy():
        new = Stage.restore(old.snapshot())
        assert msgspec.msgpack.decode(old.snapshot()) == msgspec.msgpack.decode(new.snapshot())
        assert repr(old) == repr(new)
        assert (old.index, old.count, old.now) == (new.index, new.count, new.now)


def test_look_ups_are_made_again_as_they_were() -> None:
    for old in _busy():
        assert _look_ups(Stage.restore(old.snapshot())) == _look_ups(old)


def _look_ups(stage: Stage) -> dict[str, Any]:
    """Return what a stage has beside its data, so that it can be compared."""
    found = vars(stage._state).copy()
    for name in StageData.__dataclass_fields__:
        found.pop(name, None)
    del found["tally"], found["_rules"]  # counts of a process; data
    readers, deadlines = found.pop("overlaps"), found.pop("deadlines")
    groups = {topic: [getattr(each, name) for name in Group.__slots__] for topic, each in found.pop("groups").items()}
    rules, lingers = found.pop("_logged"), list(found.pop("lingers"))
    assert found.keys() > {"topics", "by_name", "recent", "on_stage", "connected", "last_topic", "sessions"}
    orders = {name: list(found[name]) for name in ("topics", "recent", "gone", "ended", "sessions")}
    return found | {
        "orders": orders,
        "groups": groups,
        "overlaps": (list(readers), readers.stale, readers.anyone, [readers.group(topic) for topic in (1, 2)]),
        "deadlines": deadlines.first(),
        "logged": [rules.covers("s", name) for name in "ab"],
        "lingers": lingers,
    }


def test_a_stored_snapshot_is_read_and_written_again_as_it_was() -> None:
    stored = zlib.decompress(base64.b64decode(STORED))
    assert msgspec.msgpack.decode(Stage.restore(stored).snapshot()) == msgspec.msgpack.decode(stored)
    assert msgspec.msgpack.decode(_busy()[1].snapshot()) == msgspec.msgpack.decode(stored)
