import type { Worker } from "../../api/types";
import { Button, DataTable, EmptyState, StateBadge, type Column } from "../../components";
import { toBigInt } from "../../lib/numbers";
import { mostLag, processOf } from "./pipeline";

/** All workers of the store, the dead ones too until the store forgets them. */
export function WorkerTable({ workers, onDrain }: { workers: readonly Worker[]; onDrain: (worker: Worker) => void }) {
  return (
    <DataTable
      name="workers"
      columns={columnsWith(onDrain)}
      rows={workers}
      rowKey={({ owner }) => owner}
      empty={
        <EmptyState title="No worker is there" icon="workers">
          Without one no event gets a timestamp. Start one: <code>inorder worker</code>
        </EmptyState>
      }
    />
  );
}

const listed = (stages: readonly number[]): string => stages.join(", ");

function columnsWith(onDrain: (worker: Worker) => void): Column<Worker>[] {
  return [
    { key: "name", title: "Worker", value: ({ name }) => name },
    { key: "state", title: "State", value: ({ state }) => state, render: ({ state }) => <StateBadge state={state} /> },
    { key: "address", title: "Address", value: ({ address }) => address },
    { key: "stages", title: "Stages", value: ({ stages }) => listed(stages) },
    { key: "pins", title: "Kept for", csvTitle: "Stages that it is kept for", value: ({ pins }) => listed(pins) },
    {
      key: "lag",
      title: "Rows behind",
      value: (worker) => toBigInt(mostLag(worker)),
      align: "end",
    },
    {
      key: "owner",
      title: "Process",
      csvTitle: "Owner name",
      value: ({ owner }) => owner,
      render: ({ owner }) => <span title={owner}>{processOf(owner)}</span>,
    },
    {
      key: "drain",
      title: "Actions",
      isData: false,
      align: "end",
      value: () => null,
      render: (worker) =>
        worker.stages.length > 0 &&
        worker.state !== "dead" && (
          <span className="row-actions">
            <Button size="small" needs="operator" aria-label={`Drain ${worker.name}`} onClick={() => onDrain(worker)}>
              Drain…
            </Button>
          </span>
        ),
    },
  ];
}
