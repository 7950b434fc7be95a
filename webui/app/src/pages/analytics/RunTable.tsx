import { useState } from "react";
import type { AnalyticsRun } from "../../api/types";
import { DataTable, Dialog, Facts, StateBadge, Time, type Column } from "../../components";
import { formatSeconds } from "../../lib/numbers";

/** Runs of jobs, the newest first; each opens with its log. */
export function RunTable({ runs, total }: { runs: readonly AnalyticsRun[]; total: number }) {
  const [open, setOpen] = useState<AnalyticsRun | null>(null);
  return (
    <>
      <DataTable
        name="runs"
        columns={COLUMNS}
        rows={runs}
        total={total}
        rowKey={({ id }) => id}
        initialSort={{ key: "started", descending: true }}
        onOpen={setOpen}
        empty={null}
      />
      {open && <RunDialog run={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function duration({ started_at, ended_at }: AnalyticsRun): number | null {
  return ended_at === null ? null : (Date.parse(ended_at) - Date.parse(started_at)) / 1000;
}

const outcomeOf = ({ outcome, ended_at }: AnalyticsRun): string =>
  outcome ?? (ended_at === null ? "running" : "unknown");

const COLUMNS: Column<AnalyticsRun>[] = [
  { key: "kind", title: "Job", value: ({ kind }) => kind },
  { key: "source", title: "Source", value: ({ source }) => source },
  {
    key: "started",
    title: "Started",
    csvTitle: "Started (UTC)",
    value: ({ started_at }) => started_at,
    render: ({ started_at }) => <Time at={started_at} />,
  },
  {
    key: "took",
    title: "Took",
    csvTitle: "Took (s)",
    value: duration,
    render: (run) => formatSeconds(duration(run)),
    align: "end",
  },
  { key: "outcome", title: "Outcome", value: outcomeOf, render: (run) => <StateBadge state={outcomeOf(run)} /> },
  { key: "by", title: "By", value: ({ by }) => by },
];

function RunDialog({ run, onClose }: { run: AnalyticsRun; onClose: () => void }) {
  return (
    <Dialog title={`Run of ${run.kind}`} wide onClose={onClose}>
      <Facts
        items={[
          ["Outcome", <StateBadge key="outcome" state={outcomeOf(run)} />],
          ["Source", run.source],
          ["Started", <Time key="started" at={run.started_at} ms />],
          ["Ended", <Time key="ended" at={run.ended_at} ms />],
          ["By", run.by ?? "–"],
        ]}
      />
      {run.detail !== null && (
        <>
          <h3>Results</h3>
          <pre className="payload">{JSON.stringify(run.detail, null, 2)}</pre>
        </>
      )}
      <h3>Log</h3>
      {run.log ? <pre className="payload">{run.log}</pre> : <p className="muted">It logged nothing.</p>}
    </Dialog>
  );
}
