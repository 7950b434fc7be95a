import { useEffect } from "react";
import { useList } from "../../api/hooks";
import type { Move, OrderChange } from "../../api/types";
import { Badge, Card, DataTable, EmptyState, Loaded, Time, TopicName, topicText, type Column } from "../../components";
import { toBigInt } from "../../lib/numbers";
import { useLive } from "../../live/store";

const SHOWN = 3;

const COLUMNS: readonly Column<OrderChange>[] = [
  { key: "epoch", title: "Order epoch", value: (row) => toBigInt(row.order_epoch) },
  { key: "at", title: "When", value: (row) => row.at, render: (row) => <Time at={row.at} /> },
  { key: "kind", title: "How", value: (row) => row.kind, render: (row) => <Badge>{row.kind}</Badge> },
  { key: "who", title: "Who", value: (row) => row.who },
  { key: "moves", title: "Topics that moved", value: movesText, render: (row) => <Moves change={row} /> },
];

/** The order epochs so far, the newest first. */
export function OrderHistory() {
  const history = useList<OrderChange>("/order/history", { query: { limit: 100 } });
  const epoch = useLive((state) => state.orderEpoch);
  const { reload } = history;
  useEffect(() => {
    if (epoch !== null) void reload();
  }, [epoch, reload]);
  return (
    <Card flush>
      <Loaded resource={history}>
        {({ items, total }) => (
          <DataTable
            name="order changes"
            columns={COLUMNS}
            rows={items}
            total={total}
            rowKey={(row) => row.order_epoch}
            initialSort={{ key: "epoch", descending: true }}
            empty={
              <EmptyState title="The order has not changed yet" icon="topics">
                Each change is listed here with who made it and which topics moved.
              </EmptyState>
            }
          />
        )}
      </Loaded>
    </Card>
  );
}

function moveText({ topic, from_stage, to_stage, from_rank, to_rank }: Move): string {
  const stage = from_stage === to_stage ? "" : `, stage ${from_stage} → ${to_stage}`;
  return `${topicText(topic)} rank ${from_rank} → ${to_rank}${stage}`;
}

function movesText({ moves }: OrderChange): string {
  return moves?.map(moveText).join("; ") ?? "";
}

function Moves({ change }: { change: OrderChange }) {
  const { moves, moves_total } = change;
  if (moves === null) return <span className="muted">not known</span>;
  if (moves.length === 0) return <span className="muted">none</span>;
  const more = (moves_total ?? moves.length) - SHOWN;
  return (
    <ul className="moves">
      {moves.slice(0, SHOWN).map((move) => (
        <li key={move.topic.id}>
          <MoveLine move={move} />
        </li>
      ))}
      {more > 0 && <li className="muted">and {more} more</li>}
    </ul>
  );
}

/** "space: name rank 5 → 1, stage 1 → 0". */
export function MoveLine({ move }: { move: Move }) {
  const { topic, from_stage, to_stage, from_rank, to_rank } = move;
  return (
    <>
      <TopicName topic={topic} link />{" "}
      <span className="muted num">
        rank {from_rank} → {to_rank}
        {from_stage !== to_stage && `, stage ${from_stage} → ${to_stage}`}
      </span>
    </>
  );
}
