import type { TakeOver } from "../../api/types";
import { timeColumn, DataTable, StateBadge, type Column } from "../../components";
import { toBigInt } from "../../lib/numbers";
import { nameOf, processOf } from "./pipeline";

/** When which stage went to whom. */
export function TakeOvers({ items, total }: { items: readonly TakeOver[]; total: number }) {
  return (
    <DataTable
      name="take-overs"
      columns={COLUMNS}
      rows={items}
      total={total}
      rowKey={({ stage, epoch }) => `${stage} ${epoch}`}
      initialSort={{ key: "at", descending: true }}
      pageSize={20}
      empty={null}
    />
  );
}

const COLUMNS: Column<TakeOver>[] = [
  timeColumn("at", "Time", ({ at }) => at),
  { key: "stage", title: "Stage", value: ({ stage }) => stage, align: "end" },
  { key: "epoch", title: "Epoch", value: ({ epoch }) => toBigInt(epoch), align: "end" },
  { key: "kind", title: "How", value: ({ kind }) => kind, render: ({ kind }) => <StateBadge state={kind} /> },
  {
    key: "owner",
    title: "To",
    csvTitle: "To (owner name)",
    value: ({ owner }) => owner,
    render: ({ owner }) => (
      <span title={owner}>
        {nameOf(owner)} <span className="muted">{processOf(owner)}</span>
      </span>
    ),
  },
  { key: "address", title: "Address", value: ({ address }) => address },
];
