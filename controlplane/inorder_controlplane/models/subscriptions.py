"""Subscriptions, and the topics that clients share."""

from __future__ import annotations

from pydantic import Field

from inorder_controlplane.models.common import Answer, example
from inorder_controlplane.models.topics import SPACE, TopicRef


class SpaceFilter(Answer):
    """A filter in its space."""

    space: str = Field(examples=[SPACE])
    filter: str = Field(examples=["plant/#"])


class Subscription(Answer):
    """A client's subscription with total order."""

    model_config = example(
        {
            "client": "desk-1",
            "durable": True,
            "connected": False,
            "away_s": 12.5,
            "filters": [{"space": SPACE, "filter": "plant/#"}],
            "topics": 17,
            "token": "desk",
        }
    )

    client: str = Field(description="the client's id")
    durable: bool = Field(description="it stays, however long the client is away")
    connected: bool
    away_s: float | None = Field(description="for how long the client has been gone; null: connected, or for longer "
                                 "than session_timeout")  # fmt: skip
    filters: list[SpaceFilter]
    topics: int = Field(description="that it covers now")
    token: str | None = Field(description="the name of the token that it is of; null: none")


class ClientPair(Answer):
    """Two clients and what both have."""

    a: str
    b: str
    shared: int
    topics: list[TopicRef] = Field(description="some of them")


class SequencedPair(Answer):
    """Two topics that must be sequenced, because two or more clients have both; the lower one in the order first."""

    topics: list[TopicRef] = Field(min_length=2, max_length=2)
    subscribers: int = Field(description="clients that have both")
    stages_apart: int = Field(description="stages that the lower one's timestamps ride up for it")


class Overlap(Answer):
    """Shared topics: the clients that share most, and the pairs of topics that cost most."""

    model_config = example(
        {
            "clients": ["desk-1", "desk-2"],
            "clients_total": 2,
            "matrix": [[3, 2], [2, 2]],
            "pairs": [
                {"a": "desk-1", "b": "desk-2", "shared": 2, "topics": [{"id": "1", "space": SPACE, "name": "plant/a"}]}
            ],
            "sequenced_pairs": [
                {
                    "topics": [
                        {"id": "2", "space": SPACE, "name": "plant/b"},
                        {"id": "1", "space": SPACE, "name": "plant/a"},
                    ],
                    "subscribers": 2,
                    "stages_apart": 1,
                }
            ],
            "sequenced_pairs_total": 1,
        }
    )

    clients: list[str]
    clients_total: int
    matrix: list[list[int]] = Field(description="topics that each two of the clients share; their own in the diagonal")
    pairs: list[ClientPair]
    sequenced_pairs: list[SequencedPair]
    sequenced_pairs_total: int
