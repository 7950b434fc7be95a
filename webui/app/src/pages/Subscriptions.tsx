/** Who is subscribed with total order, and what their overlap costs. */
import { useState } from "react";
import { api, part } from "../api/client";
import { useList, useResource } from "../api/hooks";
import type { Overlap, Subscription } from "../api/types";
import {
  actionsColumn,
  Badge,
  Button,
  Card,
  DataTable,
  EmptyState,
  FormDialog,
  Loaded,
  PageFrame,
  toast,
  type Column,
} from "../components";
import { formatSeconds } from "../lib/numbers";
import { OverlapCard } from "./subscriptions/OverlapCard";
import { SequencedPairs } from "./subscriptions/SequencedPairs";
import "../styles/choices.css";
import "../styles/overlap.css";

const EVERY_MS = 5000;
/** Clients in the overlap: those that share most. */
const OVERLAP_LIMIT = 50;
const FILTERS_SHOWN = 3;

export default function Subscriptions() {
  const subscriptions = useList<Subscription>("/subscriptions", { everyMs: EVERY_MS });
  const overlap = useResource<Overlap>("/subscriptions/overlap", {
    query: { limit: OVERLAP_LIMIT },
    everyMs: EVERY_MS,
  });
  const [ending, setEnding] = useState<Subscription | null>(null);
  return (
    <PageFrame
      title="Subscriptions"
      lead="Clients that are subscribed with total order. Topics that two or more of them share form sequencing groups: their timestamps carry numbers of each other."
    >
      <Card title="Clients" flush>
        <Loaded resource={subscriptions}>
          {(data) => (
            <DataTable
              name="subscriptions"
              columns={columnsWith(setEnding)}
              rows={data.items}
              total={data.total}
              rowKey={(row) => row.client}
              initialSort={{ key: "client", descending: false }}
              empty={<NobodySubscribed />}
            />
          )}
        </Loaded>
      </Card>
      <Loaded resource={overlap} lines={6}>
        {(data) =>
          data.clients.length > 0 && (
            <>
              <OverlapCard overlap={data} />
              <SequencedPairs pairs={data.sequenced_pairs} total={data.sequenced_pairs_total} />
            </>
          )
        }
      </Loaded>
      {ending && (
        <EndDialog
          subscription={ending}
          onClose={() => setEnding(null)}
          onEnded={() => Promise.all([subscriptions.reload(), overlap.reload()])}
        />
      )}
    </PageFrame>
  );
}

function NobodySubscribed() {
  return (
    <EmptyState title="Nobody is subscribed with total order" icon="subscriptions">
      A client appears here once it subscribes. To see one now, run <code>inorder sub '#'</code> in a terminal.
    </EmptyState>
  );
}

function presence(row: Subscription): string {
  if (row.connected) return "connected";
  return row.away_s === null ? "away, its session has expired" : `away for ${formatSeconds(row.away_s)}`;
}

function columnsWith(onEnd: (row: Subscription) => void): Column<Subscription>[] {
  return [
    { key: "client", title: "Client", value: (row) => row.client },
    {
      key: "presence",
      title: "Presence",
      value: presence,
      render: (row) => <Badge tone={row.connected ? "ok" : "warn"}>{presence(row)}</Badge>,
    },
    { key: "durable", title: "Durable", value: (row) => row.durable },
    { key: "token", title: "Token", value: (row) => row.token },
    {
      key: "filters",
      title: "Filters",
      value: (row) => row.filters.map(({ space, filter }) => `${space}:${filter}`).join(" "),
      render: (row) => <Filters row={row} />,
    },
    { key: "topics", title: "Topics", value: (row) => row.topics, align: "end" },
    actionsColumn((row) => <EndButton row={row} onEnd={onEnd} />),
  ];
}

function Filters({ row }: { row: Subscription }) {
  const rest = row.filters.slice(FILTERS_SHOWN);
  return (
    <span className="filters">
      {row.filters.slice(0, FILTERS_SHOWN).map(({ space, filter }) => (
        <span key={`${space}:${filter}`} className="topic">
          <span className="topic-space">{space}: </span>
          {filter}
        </span>
      ))}
      {rest.length > 0 && (
        <span className="muted" title={rest.map(({ space, filter }) => `${space}: ${filter}`).join("\n")}>
          and {rest.length} more
        </span>
      )}
    </span>
  );
}

function EndButton({ row, onEnd }: { row: Subscription; onEnd: (row: Subscription) => void }) {
  if (row.connected) return null; // the client would subscribe anew at once
  return (
    <span className="row-actions">
      <Button size="small" variant="danger" needs="operator" onClick={() => onEnd(row)}>
        End…
      </Button>
    </span>
  );
}

interface EndDialogProps {
  subscription: Subscription;
  onClose: () => void;
  onEnded: () => Promise<unknown>;
}

function EndDialog({ subscription, onClose, onEnded }: EndDialogProps) {
  const { client, durable } = subscription;
  const end = async (): Promise<void> => {
    await api.delete(`/subscriptions/${part(client)}`);
    toast.ok(`The subscription of ${client} has ended.`);
    await onEnded();
  };
  return (
    <FormDialog
      title={`End the subscription of ${client}`}
      submit="End the subscription"
      danger
      onClose={onClose}
      onSubmit={end}
    >
      <ul className="consequence">
        {durable && <li>Its saved clock is deleted: what it has not read is not kept for it any more.</li>}
        <li>If the client comes back it begins anew. It is told of a gap in each of its topics.</li>
        <li>Its topics leave the sequencing groups that only it held together, after the linger.</li>
      </ul>
    </FormDialog>
  );
}
