import { useState } from "react";
import { api, part } from "../../api/client";
import { useList } from "../../api/hooks";
import type { Token } from "../../api/types";
import {
  Badge,
  Button,
  Card,
  CopyButton,
  DataTable,
  Dialog,
  EmptyState,
  FormDialog,
  Loaded,
  Time,
  actionsColumn,
  numberColumn,
  timeColumn,
  toast,
  type Column,
} from "../../components";
import { TokenDialog } from "./TokenDialog";
import type { IssuedToken } from "./tokenForm";

/** Tokens: made, listed, revoked. Their secrets are not kept anywhere. */
export function TokensTab() {
  const tokens = useList<Token>("/tokens");
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<IssuedToken | null>(null);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <Card
      title="Tokens"
      hint="For people, tools and applications. Only a fingerprint of each is stored."
      actions={
        <Button variant="primary" icon="plus" onClick={() => setMaking(true)}>
          New token
        </Button>
      }
      flush
    >
      <Loaded resource={tokens}>
        {(data) => (
          <DataTable
            name="tokens"
            columns={columnsWith(setRevoking)}
            rows={data.items}
            total={data.total}
            rowKey={({ id }) => id}
            empty={<EmptyState title="There are no tokens">Make one for each person and each application.</EmptyState>}
          />
        )}
      </Loaded>
      {isMaking && (
        <TokenDialog
          onClose={() => setMaking(false)}
          onMade={async (token) => {
            setMade(token);
            await tokens.reload();
          }}
        />
      )}
      {made && <SecretDialog token={made} onClose={() => setMade(null)} />}
      {revoking && <RevokeDialog token={revoking} onClose={() => setRevoking(null)} onDone={tokens.reload} />}
    </Card>
  );
}

function stateOf({ revoked_at, expires_at }: Token): "valid" | "expired" | "revoked" {
  if (revoked_at !== null) return "revoked";
  return expires_at !== null && Date.parse(expires_at) <= Date.now() ? "expired" : "valid";
}

const TONES = { valid: "ok", expired: "warn", revoked: "neutral" } as const;

const orAny = (most: number | null): number | string | null => (most === 0 ? "any" : most);

function columnsWith(onRevoke: (token: Token) => void): Column<Token>[] {
  return [
    { key: "name", title: "Name", value: ({ name }) => name },
    { key: "role", title: "Role", value: ({ role }) => role, render: ({ role }) => <Badge tone="info">{role}</Badge> },
    {
      key: "state",
      title: "State",
      value: stateOf,
      render: (token) => <Badge tone={TONES[stateOf(token)]}>{stateOf(token)}</Badge>,
    },
    { key: "publish", title: "Publishes to", value: (token) => filterText(token, token.publish) },
    { key: "subscribe", title: "Subscribes to", value: (token) => filterText(token, token.subscribe) },
    numberColumn(["most", "Open numbers", "Most unconfirmed numbers"], (token) => token.max_unconfirmed),
    numberColumn(["topics", "New topics", "Most topics that it makes"], (token) => orAny(token.max_topics)),
    numberColumn(["subscriptions", "Durable", "Most durable subscriptions"], (token) => orAny(token.max_subscriptions)),
    timeColumn("created", "Made", ({ created_at }) => created_at),
    {
      key: "expires",
      title: "Expires",
      csvTitle: "Expires (UTC)",
      value: ({ expires_at }) => expires_at,
      render: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : <span className="muted">never</span>),
    },
    actionsColumn(
      (token) =>
        stateOf(token) === "valid" && (
          <span className="row-actions">
            <Button
              size="small"
              variant="danger"
              needs="admin"
              aria-label={`Revoke ${token.name}`}
              onClick={() => onRevoke(token)}
            >
              Revoke…
            </Button>
          </span>
        ),
    ),
  ];
}

function filterText({ role }: Token, filters: readonly string[] | null): string | null {
  if (role === "viewer") return null;
  return filters === null ? "everything" : filters.join(" ");
}

function SecretDialog({ token, onClose }: { token: IssuedToken; onClose: () => void }) {
  return (
    <Dialog title={`The secret of ${token.name}`} onClose={onClose}>
      <p>Copy it now: it is shown this once, and nobody can read it again.</p>
      <div className="secret">
        <code>{token.secret}</code>
        <CopyButton text={token.secret} />
      </div>
      <p className="muted">
        Applications take it as <code>token=</code> of a client or as <code>INORDER_CLIENT__TOKEN</code>; people log in
        with it here.
      </p>
      <div className="dialog-actions">
        <Button variant="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  );
}

function RevokeDialog({
  token,
  onClose,
  onDone,
}: {
  token: Token;
  onClose: () => void;
  onDone: () => Promise<unknown>;
}) {
  const revoke = async (): Promise<void> => {
    await api.delete(`/tokens/${part(token.id)}`);
    toast.ok(`${token.name} is revoked.`);
    await onDone();
  };
  return (
    <FormDialog title={`Revoke ${token.name}`} submit="Revoke the token" danger onClose={onClose} onSubmit={revoke}>
      <ul className="consequence">
        <li>Whoever holds it is refused from now on; logins in browsers that were made with it end.</li>
        <li>Applications that use it can connect no more, and what they publish gets no numbers.</li>
        <li>It cannot be made valid again; make a new one instead.</li>
      </ul>
    </FormDialog>
  );
}
