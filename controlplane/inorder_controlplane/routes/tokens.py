"""``/tokens``: tokens and their rights. For admins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ContextDep
from inorder_controlplane.models.common import moment, moment_or_none
from inorder_controlplane.models.tokens import IssuedToken, NewToken, Token
from inorder_controlplane.paging import ListQueryDep, Page, page_of
from inorder_controlplane.principals import Admin
from inorder_controlplane.problems import Problem
from inorder_controlplane.sessions import has_admin
from inorder_worker.store import tokens as stored
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

router = APIRouter(prefix="/tokens", tags=["tokens"])


@router.get("", operation_id="listTokens")
async def list_tokens(context: ContextDep, principal: Admin, query: ListQueryDep) -> Page[Token]:
    """List all tokens, also invalid ones. Nothing tells a secret."""
    found = await context.database.call(lambda store: TokenStore(store).list())
    items, following, total = page_of(
        [each for each in found if not each.is_internal],
        query,
        ident=lambda each: each.id,
        sorts={
            "name": lambda each: each.name,
            "role": lambda each: each.role,
            "created_at": lambda each: each.created_ms,
            "expires_at": lambda each: each.expires_ms,
        },
        default="-created_at",
        text=lambda each: f"{each.id} {each.name} {each.role} {each.by}",
    )
    return Page(items=[Token(**_facts(each)) for each in items], next=following, total=total)


@router.post("", operation_id="issueToken", status_code=201)
async def issue_token(body: NewToken, context: ContextDep, principal: Admin) -> IssuedToken:
    """Make a token. Its secret is in this answer and nowhere else."""

    def issue(store: Store) -> tuple[stored.Token, str]:
        return TokenStore(store).issue(
            body.name,
            body.role,
            expires_s=body.expires_in_s,
            publish=body.publish,
            subscribe=body.subscribe,
            max_unconfirmed=body.max_unconfirmed,
            max_topics=body.max_topics,
            max_subscriptions=body.max_subscriptions,
            by=principal.name,
        )

    async with audited(context, principal, "token.issue", body.name, **body.model_dump(exclude={"name"})) as result:
        token, secret = await context.database.call(issue)
        result["id"] = token.id
    return IssuedToken(**_facts(token), secret=secret)


@router.delete("/{token_id}", operation_id="revokeToken")
async def revoke_token(token_id: str, context: ContextDep, principal: Admin) -> Token:
    """Revoke a token and end its logins. An admin's last one stays, else nobody could make another."""
    found = await context.database.call(lambda store: TokenStore(store).get(token_id))
    if found is None or found.is_internal:
        raise Problem("not-found", "there is no token of this id")
    async with audited(context, principal, "token.revoke", token_id, name=found.name):
        revoked = await context.database.call(lambda store: _revoke(store, found, context.now_ms()))
    return Token(**_facts(revoked))


def _revoke(store: Store, token: stored.Token, now_ms: int) -> stored.Token:
    if token.role == "admin" and token.is_valid(now_ms) and not has_admin(store, now_ms, besides=token.id):
        raise Problem("conflict", "this is the only admin's token; make another one first")
    revoked = TokenStore(store).revoke(token.id)
    assert revoked is not None
    return revoked


def _facts(token: stored.Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "publish": token.publish and list(token.publish),
        "subscribe": token.subscribe and list(token.subscribe),
        "max_unconfirmed": token.max_unconfirmed,
        "max_topics": token.max_topics,
        "max_subscriptions": token.max_subscriptions,
        "created_at": moment(token.created_ms),
        "expires_at": moment_or_none(token.expires_ms),
        "revoked_at": moment_or_none(token.revoked_ms),
        "by": token.by,
    }
