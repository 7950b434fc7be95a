import { useState } from "react";
import type { Result, RunDetail } from "../../api/analytics";
import { API, part, withQuery } from "../../api/client";
import { useResource } from "../../api/hooks";
import { useCan } from "../../api/session";
import {
  Banner,
  Button,
  Card,
  EmptyState,
  Facts,
  Icon,
  Loaded,
  PageFrame,
  Select,
  StateBadge,
  Time,
} from "../../components";
import { formatBytes, formatCount, formatSeconds } from "../../lib/numbers";
import { Link, navigate, setQuery, useLocation } from "../../router";
import { CancelDialog, DeleteDialog, LogText } from "./dialogs";
import { shortSource, isOpen } from "./runs";
import { Progress } from "./Progress";
import { ResultView } from "./ResultView";

const OPEN_MS = 1500;

/** One run: how it goes, and what it found. */
export function RunPage({ id }: { id: string }) {
  const [isDone, setDone] = useState(false);
  const path = `/analytics/runs/${part(id)}`;
  const run = useResource<RunDetail>(path, isDone ? {} : { everyMs: OPEN_MS });
  const hasEnded = run.data !== null && !isOpen(run.data);
  if (hasEnded !== isDone) setDone(hasEnded); // what has ended does not change any more
  return (
    <PageFrame
      title={run.data ? `Analysis of ${shortSource(run.data.source)}` : "Analysis"}
      lead={<Link to="/analytics">All runs and schedules</Link>}
      actions={run.data && <Actions run={run.data} onChanged={run.reload} />}
    >
      <Loaded resource={run} lines={8}>
        {(data) => <Run run={data} />}
      </Loaded>
    </PageFrame>
  );
}

function Actions({ run, onChanged }: { run: RunDetail; onChanged: () => Promise<unknown> }) {
  const [asked, setAsked] = useState<"cancel" | "delete" | null>(null);
  const canWrite = useCan("operator");
  const { result } = run;
  return (
    <>
      {result && (
        <>
          <a className="btn btn-default" href={resultAddress(run)} download>
            <Icon name="download" />
            Result
          </a>
          <Button onClick={() => navigate(`/analytics/compare?b=${part(run.id)}`)}>Compare…</Button>
        </>
      )}
      {canWrite &&
        (isOpen(run) ? (
          <Button variant="danger" disabled={run.cancelled_by !== null} onClick={() => setAsked("cancel")}>
            Cancel…
          </Button>
        ) : (
          <Button variant="danger" onClick={() => setAsked("delete")}>
            Delete…
          </Button>
        ))}
      {asked === "cancel" && <CancelDialog run={run} onClose={() => setAsked(null)} onDone={onChanged} />}
      {asked === "delete" && (
        <DeleteDialog run={run} onClose={() => setAsked(null)} onDone={async () => navigate("/analytics")} />
      )}
    </>
  );
}

function Run({ run }: { run: RunDetail }) {
  const { result, outcome, reason } = run;
  return (
    <>
      {isOpen(run) && (
        <Card title="Progress">
          <Progress run={run} />
        </Card>
      )}
      {outcome === "failed" && (
        <Banner tone="bad">The analysis failed{reason ? `: ${reason}` : "."} Its log says more.</Banner>
      )}
      {outcome === "cancelled" && (
        <Banner tone="info">The analysis was cancelled{run.cancelled_by ? ` by ${run.cancelled_by}` : ""}.</Banner>
      )}
      {result && <Found result={result} />}
      <Card title="The run">
        <Facts pairs={2} items={factsOf(run)} />
      </Card>
      <Card title="Log">
        <LogText run={run} />
      </Card>
    </>
  );
}

function factsOf(run: RunDetail): (readonly [string, React.ReactNode])[] {
  const { job, result } = run;
  const facts: (readonly [string, React.ReactNode])[] = [
    ["Outcome", <StateBadge key="outcome" state={run.outcome} />],
    ["By", run.schedule === null ? run.by : `${run.by}, by a schedule`],
    ["Traces", run.source],
    ["Took", formatSeconds(run.duration_s)],
    ["Asked for", <Time key="queued" at={run.queued_at} ms />],
    ["Ended", <Time key="ended" at={run.ended_at} ms />],
    ["Window", formatSeconds(job.window_s)],
    ["Most pairs", formatCount(job.max_pairs)],
    ["Spark master", job.master],
    ["Parquet", job.out ?? "none"],
  ];
  if (result) {
    facts.push(
      ["Rows read", formatCount(result.rows)],
      ["Files read", `${formatCount(result.files.read)}, ${formatBytes(result.files.bytes)}`],
      ["As CSV", <ListLinks key="lists" run={run} />],
    );
  }
  return facts;
}

const resultAddress = ({ id }: RunDetail, list?: string): string =>
  withQuery(`${API}/analytics/runs/${part(id)}/result`, { list });

const LISTS: readonly (readonly [keyof Result, string])[] = [
  ["by_run", "runs"],
  ["by_topic", "topics"],
  ["by_subscriber", "subscribers"],
  ["by_window", "windows"],
  ["worst_pairs", "pairs"],
  ["popularity", "popularity"],
  ["message_overhead", "stages"],
];

function ListLinks({ run }: { run: RunDetail }) {
  return (
    <span className="list-links">
      {LISTS.map(([list, name]) => (
        <a key={list} href={resultAddress(run, list)} download>
          {name}
        </a>
      ))}
    </span>
  );
}

/** What was found; of one recorded run where there are several and one is chosen. */
function Found({ result }: { result: Result }) {
  const { query } = useLocation();
  const runs = result.by_run.map(({ run }) => run);
  const wanted = query.get("run");
  const run = wanted !== null && runs.includes(wanted) ? wanted : null;
  if (Number(result.rows) === 0) {
    return (
      <Card>
        <EmptyState title="There is nothing in these traces">
          The analysis found no rows. Files appear in the folder when a client has recorded for a few seconds, or
          closes.
        </EmptyState>
      </Card>
    );
  }
  return (
    <>
      {runs.length > 1 && (
        <label className="run-choice">
          <span className="field-label">Recorded run</span>
          <Select value={run ?? ""} onChange={(event) => setQuery({ run: event.target.value })}>
            <option value="">All {formatCount(runs.length)} together</option>
            {runs.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </Select>
        </label>
      )}
      <ResultView result={result} run={run} />
    </>
  );
}
