import { useMemo, useState } from "react";
import type { Run } from "../../api/analytics";
import { withQuery } from "../../api/client";
import { useCan } from "../../api/session";
import { timeColumn, numberColumn, actionsColumn, Button, DataTable, StateBadge, type Column } from "../../components";
import { formatSeconds, toBigInt } from "../../lib/numbers";
import { Link, navigate } from "../../router";
import { CancelDialog, DeleteDialog, LogDialog } from "./dialogs";
import { degree } from "./figures";
import { Progress } from "./Progress";
import { choose, isOpen, shortSource } from "./runs";

type Asked = { what: "log" | "cancel" | "delete"; run: Run };

interface RunTableProps {
  runs: readonly Run[];
  total: number;
  /** Names of schedules by id. */
  schedules: ReadonlyMap<string, string>;
  onChanged: () => Promise<unknown>;
}

/** Runs of analyses, the newest first: how each goes or went, and what can be done with it. */
export function RunTable({ runs, total, schedules, onChanged }: RunTableProps) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [asked, setAsked] = useState<Asked | null>(null);
  const canWrite = useCan("operator");
  // Who were deleted meanwhile are not compared.
  const comparable = chosen.filter((id) => runs.some((run) => run.id === id && run.outcome === "done"));
  const columns = useMemo(() => {
    const onChoose = (id: string): void => setChosen(choose(comparable, id));
    const props = { canWrite, chosen: comparable, onChoose, onAsk: setAsked };
    return [...columnsWith(schedules), actionsColumn((run: Run) => <Actions run={run} {...props} />)];
  }, [schedules, canWrite, comparable.join(" ")]);
  const close = (): void => setAsked(null);
  return (
    <>
      <DataTable
        name="runs"
        columns={columns}
        rows={runs}
        total={total}
        rowKey={({ id }) => id}
        initialSort={{ key: "queued", descending: true }}
        isSelected={({ id }) => comparable.includes(id)}
        tools={
          <Button
            size="small"
            disabled={comparable.length !== 2}
            title="Choose two runs that are done"
            onClick={() => navigate(withQuery("/analytics/compare", { a: comparable[0], b: comparable[1] }))}
          >
            Compare ({comparable.length} of 2)
          </Button>
        }
        empty={null}
      />
      {asked?.what === "log" && <LogDialog run={asked.run} onClose={close} />}
      {asked?.what === "cancel" && <CancelDialog run={asked.run} onClose={close} onDone={onChanged} />}
      {asked?.what === "delete" && <DeleteDialog run={asked.run} onClose={close} onDone={onChanged} />}
    </>
  );
}

const columnsWith = (schedules: ReadonlyMap<string, string>): Column<Run>[] => [
  {
    key: "source",
    title: "Traces",
    value: ({ source }) => source,
    render: ({ id, source }) => (
      <Link className="row-link" to={`/analytics/${id}`} title={source}>
        {shortSource(source)}
      </Link>
    ),
  },
  {
    key: "outcome",
    title: "Outcome",
    value: ({ outcome, reason }) => [outcome, reason].filter(Boolean).join(": "),
    render: (run) => (isOpen(run) ? <Progress run={run} /> : <EndBadge run={run} />),
  },
  timeColumn("queued", "Asked for", ({ queued_at }) => queued_at),
  numberColumn(["took", "Took", "Took (s)"], ({ duration_s }) => duration_s, formatSeconds),
  {
    key: "by",
    title: "By",
    value: ({ by, schedule }) => (schedule === null ? by : `${by}, ${scheduleName(schedules, schedule)}`),
    render: ({ by, schedule }) => (
      <>
        {by}
        {schedule !== null && <span className="muted"> · {scheduleName(schedules, schedule)}</span>}
      </>
    ),
  },
  numberColumn(["events", "Events"], ({ summary }) => toBigInt(summary?.events)),
  numberColumn(
    ["degree_raw", "Broker", "Ordering degree, raw"],
    ({ summary }) => summary?.ordering_degree_raw ?? null,
    degree,
  ),
  numberColumn(
    ["degree", "Delivered", "Ordering degree, delivered"],
    ({ summary }) => summary?.ordering_degree_delivered ?? null,
    degree,
  ),
];

const scheduleName = (schedules: ReadonlyMap<string, string>, id: string): string =>
  schedules.has(id) ? `schedule “${schedules.get(id)}”` : "a schedule that is gone";

function EndBadge({ run: { outcome, reason } }: { run: Run }) {
  return (
    <span title={reason ?? undefined}>
      <StateBadge state={outcome} />
    </span>
  );
}

interface ActionsProps {
  canWrite: boolean;
  chosen: readonly string[];
  onChoose: (id: string) => void;
  onAsk: (asked: Asked) => void;
}

function Actions({ run, canWrite, chosen, onChoose, onAsk }: ActionsProps & { run: Run }) {
  const { id, outcome, cancelled_by } = run;
  const name = `${run.source}, run ${id}`;
  return (
    <span className="row-actions">
      {outcome === "done" && (
        <label className="check compare-check" title="Compare">
          <input
            type="checkbox"
            aria-label={`Compare ${name}`}
            checked={chosen.includes(id)}
            onChange={() => onChoose(id)}
          />
          <span className="compare-word">Compare</span>
        </label>
      )}
      <Button size="small" aria-label={`Log of ${name}`} onClick={() => onAsk({ what: "log", run })}>
        Log
      </Button>
      {canWrite && isOpen(run) && (
        <Button
          size="small"
          variant="danger"
          disabled={cancelled_by !== null}
          aria-label={`Cancel ${name}`}
          onClick={() => onAsk({ what: "cancel", run })}
        >
          Cancel…
        </Button>
      )}
      {canWrite && !isOpen(run) && (
        <Button
          size="small"
          variant="danger"
          aria-label={`Delete ${name}`}
          onClick={() => onAsk({ what: "delete", run })}
        >
          Delete…
        </Button>
      )}
    </span>
  );
}
