import type { Worker } from "../../api/types";
import {
  numberColumn,
  actionsColumn,
  Badge,
  Button,
  DataTable,
  EmptyState,
  StateBadge,
  type Column,
} from "../../components";
import { toBigInt } from "../../lib/numbers";
import { mostLag, processOf } from "./pipeline";

interface Actions {
  /** Asks before it takes the stages of a worker. */
  onDrain: (worker: Worker) => void;
  /** Lets a drained worker take stages again. */
  onUndrain: (worker: Worker) => void;
}

/** All workers of the store, the dead ones too until the store forgets them. */
export function WorkerTable({ workers, ...actions }: Actions & { workers: readonly Worker[] }) {
  return (
    <DataTable
      name="workers"
      columns={columnsWith(actions)}
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

function columnsWith(actions: Actions): Column<Worker>[] {
  return [
    { key: "name", title: "Worker", value: ({ name }) => name },
    {
      key: "state",
      title: "State",
      value: ({ state, drained }) => (drained ? `${state}, drained` : state),
      render: ({ state, drained }) => (
        <>
          <StateBadge state={state} /> {drained && <Badge tone="warn">drained</Badge>}
        </>
      ),
    },
    { key: "address", title: "Address", value: ({ address }) => address },
    { key: "stages", title: "Stages", value: ({ stages }) => listed(stages) },
    { key: "pins", title: "Kept for", csvTitle: "Stages that it is kept for", value: ({ pins }) => listed(pins) },
    numberColumn(["lag", "Rows behind"], (worker) => toBigInt(mostLag(worker))),
    {
      key: "owner",
      title: "Process",
      csvTitle: "Owner name",
      value: ({ owner }) => owner,
      render: ({ owner }) => <span title={owner}>{processOf(owner)}</span>,
    },
    actionsColumn((worker) => worker.state !== "dead" && <RowActions worker={worker} {...actions} />),
  ];
}

function RowActions({ worker, onDrain, onUndrain }: Actions & { worker: Worker }) {
  return (
    <span className="row-actions">
      {worker.drained ? (
        <Button
          size="small"
          needs="operator"
          aria-label={`Let ${worker.name} take stages again`}
          onClick={() => onUndrain(worker)}
        >
          Let it work
        </Button>
      ) : (
        <Button size="small" needs="operator" aria-label={`Drain ${worker.name}`} onClick={() => onDrain(worker)}>
          Drain…
        </Button>
      )}
    </span>
  );
}
