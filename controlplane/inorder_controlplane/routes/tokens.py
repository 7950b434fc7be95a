"""``/tokens``: tokens and their rights. For admins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ContextDep
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.tokens import IssuedToken, NewToken, Token
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
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
    return page_of(
        [each for each in found if not each.is_internal],
        query,
        lambda each: answer(Token, each, **_times(each)),
        ident=lambda each: each.id,
        sorts=by("name", "role", created_at=lambda each: each.created_ms, expires_at=lambda each: each.expires_ms),
        default="-created_at",
        text=lambda each: f"{each.id} {each.name} {each.role} {each.by}",
    )


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
    return answer(IssuedToken, token, **_times(token), secret=secret)


@router.delete("/{token_id}", operation_id="revokeToken")
async def revoke_token(token_id: str, context: ContextDep, principal: Admin) -> Token:
    """Revoke a token and end its logins. An admin's last one stays, else nobody could make another."""
    found = await context.database.call(lambda store: TokenStore(store).get(token_id))
    if found is None or found.is_internal:
        raise Problem("not-found", "there is no token of this id")
    async with audited(context, principal, "token.revoke", token_id, name=found.name):
        revoked = await context.database.call(lambda store: _revoke(store, found, context.now_ms()))
        context.end_rights()
    return answer(Token, revoked, **_times(revoked))


def _revoke(store: Store, token: stored.Token, now_ms: int) -> stored.Token:
    if token.role == "admin" and token.is_valid(now_ms) and not has_admin(store, now_ms, besides=token.id):
        raise Problem("conflict", "this is the only admin's token; make another one first")
    revoked = TokenStore(store).revoke(token.id)
    assert revoked is not None
    return revoked


def _times(token: stored.Token) -> dict[str, Any]:
    return {"created_at": token.created_ms, "expires_at": token.expires_ms, "revoked_at": token.revoked_ms}
