"""``inorder tokens``: the store's tokens and their rights; it asks no worker."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from inorder.errors import InvalidFilter
from inorder_cli import options, output
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.naming import split
from inorder_cli.stores import WHO, audited, opened_store, utc_text

if TYPE_CHECKING:
    from inorder_worker.store.tokens import Token

tokens = options.group(
    name="tokens",
    help="Make, list and revoke the tokens that a store's workers and control plane know. Works on the store itself; "
    "workers heed it within a second.",
)
"""The group of these commands."""

CENTURY = 100 * 365 * 86_400
"""Seconds that a token may be good for, at most."""
WHAT = "the tokens of a store"


class Role(StrEnum):
    """The role of a token."""

    CLIENT = "client"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


MaxUnconfirmed = Annotated[
    int | None,
    typer.Option(
        min=1, max=2**31 - 1, metavar="N", help="Numbers that each of its sessions may have unconfirmed. Else any."
    ),
]
MaxTopics = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**31 - 1,
        metavar="N",
        help="Topics that all tokens of this name may make together; 0: any. Else as the workers are set "
        "(max_token_topics), and any for an admin.",
    ),
]
MaxSubscriptions = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**31 - 1,
        metavar="N",
        help="Durable subscriptions that all tokens of this name may have at a time; 0: any. Else as the workers "
        "are set (max_token_subscriptions), and any for an admin.",
    ),
]
"""How much a new token may have."""


@tokens.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it: who, or what, has it.")],
    role: Annotated[
        Role,
        typer.Option(
            help="client: publish and subscribe; viewer: look; operator: change the topic order, logs, subscriptions, "
            "numbers and workers too; admin: all of it, and tokens."
        ),
    ] = Role.CLIENT,
    publish: Annotated[
        list[str] | None,
        typer.Option(metavar="SPACE:FILTER", help="Topics that it may publish to; again for more. Else all."),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(metavar="SPACE:FILTER", help="Topics that it may subscribe to; again for more. Else all."),
    ] = None,
    max_unconfirmed: MaxUnconfirmed = None,
    max_topics: MaxTopics = None,
    max_subscriptions: MaxSubscriptions = None,
    expires: Annotated[
        float | None,
        typer.Option(min=1, max=CENTURY, metavar="SECONDS", help="For how long it is good. Else until revoked."),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Make a token. Its secret is printed on stdout, once: only a hash of it is kept. The store is made, too, if there
    is none yet.

    Clients show it with INORDER_CLIENT__TOKEN or token=..., browsers at the control plane's login.
    """
    from inorder_worker.store.tokens import TokenStore

    _check_topics("--publish", publish)
    _check_topics("--subscribe", subscribe)
    with (
        opened_store(config, store, WHAT, makes=True) as opened,
        audited(opened, "token.issue", name, {"role": str(role)}) as result,
    ):
        token, secret = TokenStore(opened).issue(
            name,
            str(role),
            expires_s=expires,
            publish=publish or None,
            subscribe=subscribe or None,
            max_unconfirmed=max_unconfirmed,
            max_topics=max_topics,
            max_subscriptions=max_subscriptions,
            by=WHO,
        )
        result.update((key, value) for key, value in _plain(token).items() if value is not None)
    if json:
        output.emit({**_plain(token), "secret": secret})
    else:
        output.say(output.printable(f"{_text(token)}; its secret, which is shown only now:"))
        typer.echo(secret)
    return ExitCode.OK


@tokens.command("list")
def list_all(
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show all tokens, the newest first, also those that have expired or were revoked. No secrets."""
    from inorder_worker.store.tokens import TokenStore

    with opened_store(config, store, WHAT) as opened:
        found = TokenStore(opened).list()
    for each in found:
        output.tell(_plain(each), _text(each), is_json=json)
    if not found and not json:
        output.say("there are no tokens; make one with: inorder tokens create NAME")
    return ExitCode.OK


@tokens.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as inorder tokens list shows it.")],
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """End a token for good. Who is connected with it is disconnected within about a second."""
    from inorder_worker.store.tokens import TokenStore

    with opened_store(config, store, WHAT) as opened:
        found = TokenStore(opened).get(token)
        if found is None:
            raise CommandFailed(f"there is no token with the id {token!r}; inorder tokens list shows all")
        with audited(opened, "token.revoke", found.id, {"name": found.name}):
            ended = TokenStore(opened).revoke(found.id)
    assert ended is not None, "tokens are never deleted"
    output.tell(_plain(ended), _text(ended), is_json=json)
    return ExitCode.OK


def _check_topics(flag: str, patterns: list[str] | None) -> None:
    """Raise CommandFailed with the name of the option for a filter that no broker would take."""
    from inorder.protocol.filters import filter_of

    for text in patterns or ():
        space, name = split(text, "space:filter", flag)
        try:
            filter_of(space, name)
        except InvalidFilter as error:
            raise CommandFailed(f"{flag}: {error}", ExitCode.USAGE) from None


def _plain(token: Token) -> dict[str, object]:
    return {
        "id": token.id, "name": token.name, "role": token.role, "publish": _list(token.publish),
        "subscribe": _list(token.subscribe), "max_unconfirmed": token.max_unconfirmed,
        "max_topics": token.max_topics, "max_subscriptions": token.max_subscriptions,
        "created_at": utc_text(token.created_ms), "expires_at": utc_text(token.expires_ms),
        "revoked_at": utc_text(token.revoked_ms),
    }  # fmt: skip


def _list(patterns: tuple[str, ...] | None) -> list[str] | None:
    return None if patterns is None else list(patterns)


def _text(token: Token) -> str:
    parts = [f"{token.id}: {token.name}, {token.role}"]
    for what, patterns in (("publishes to", token.publish), ("subscribes to", token.subscribe)):
        if patterns is not None:
            parts.append(f"{what} {' '.join(patterns)}")
    if token.max_unconfirmed is not None:
        parts.append(f"{token.max_unconfirmed} unconfirmed")
    if token.max_topics is not None:
        parts.append(f"makes {token.max_topics or 'any'} topics")
    if token.max_subscriptions is not None:
        parts.append(f"{token.max_subscriptions or 'any'} durable subscriptions")
    if token.revoked_ms is not None:
        parts.append(f"revoked {utc_text(token.revoked_ms)}")
    elif token.expires_ms is not None:
        parts.append(f"expires {utc_text(token.expires_ms)}")
    return ", ".join(parts)
