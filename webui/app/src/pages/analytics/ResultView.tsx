import type { Result, Summary } from "../../api/analytics";
import { Banner, Card, DataTable, EmptyState, SpreadTable, Stat, type SpreadPart } from "../../components";
import { formatCount, formatMs, toBigInt } from "../../lib/numbers";
import { COST, NOTIFICATION, ORDER } from "./figures";
import { FigureCard, VerdictBanner } from "./FigureTable";
import { GapFigures } from "./GapFigures";
import { ResultTables } from "./ResultTables";
import { SuggestedOrder } from "./SuggestedOrder";
import { WindowCharts } from "./WindowCharts";
import { newestRun } from "./windows";

interface ResultViewProps {
  result: Result;
  /** The recorded run that is shown; null: all together. */
  run: string | null;
}

/** The figures of an analysis, from the verdict down to single topics. */
export function ResultView({ result, run }: ResultViewProps) {
  const summary: Summary = result.by_run.find((each) => each.run === run) ?? result;
  const charted = run ?? newestRun(result.by_window);
  return (
    <>
      <VerdictBanner summary={summary} />
      <Doubts result={result} summary={summary} />
      <Size summary={summary} />
      <FigureCard
        group={ORDER}
        summary={summary}
        hint="the mean over pairs of subscribers, each counted by the events that it shares"
      />
      <div className="pair-of-cards">
        <FigureCard group={NOTIFICATION} summary={summary} />
        <FigureCard group={COST} summary={summary} />
      </div>
      <Card title="Where the time goes" hint="of the last subscriber of each event" flush>
        <SpreadTable label="Where the time goes" parts={partsOf(summary)} />
      </Card>
      {charted !== null && (
        <>
          {run === null && result.by_run.length > 1 && (
            <p className="muted small">Over time: the recorded run {charted}, the newest one.</p>
          )}
          <WindowCharts windows={result.by_window} run={charted} windowS={result.window_s} />
        </>
      )}
      <ResultTables result={result} run={run} />
      <SuggestedOrder orders={result.topic_order} run={run} />
      <GapFigures gaps={summary.gaps} />
      <DamagedFiles result={result} />
    </>
  );
}

function Size({ summary }: { summary: Summary }) {
  const { events, publishers, subscribers, topics } = summary;
  return (
    <Card>
      <div className="size-figures">
        <Stat label="Events" value={formatCount(events)} />
        <Stat label="Publishers" value={formatCount(publishers)} />
        <Stat label="Subscribers" value={formatCount(subscribers)} />
        <Stat label="Topics" value={formatCount(topics)} />
      </div>
    </Card>
  );
}

const partsOf = (of: Summary): SpreadPart[] => [
  { name: "Timestamp", meaning: "from publish until the event has its number", color: 2, of: of.timestamp_ms },
  { name: "Broker", meaning: "from there until the broker has brought it", color: 1, of: of.ens_ms },
  { name: "Waiting", meaning: "until everything that comes before it was delivered", color: 3, of: of.waiting_ms },
  { name: "Together", meaning: "publish to the last notification", color: 5, of: of.latency_ms },
];

/** What keeps the figures from being exact, where anything does. */
function Doubts({ result, summary }: DoubtsProps) {
  const { dropped_rows, negative_latencies, uncorrected, clock_error_ms } = summary;
  const isSome = (value: string | number): boolean => (toBigInt(value) ?? 0n) > 0n;
  const notes: string[] = [];
  if (clock_error_ms.max !== null) {
    const shares: [number | null | undefined, string][] = [
      [clock_error_ms.p50, "of half of the events"],
      [clock_error_ms.p99, "of 99 in 100"],
      [clock_error_ms.max, "of all"],
    ];
    const bounds = shares.flatMap(([bound, of]) => (bound == null ? [] : [`${of} by ${formatMs(bound)} at most`]));
    notes.push(`Latencies are off, ${bounds.join(", ")}: so well are the clocks known.`);
  }
  if (isSome(uncorrected)) {
    notes.push(`Of ${formatCount(uncorrected)} events a clock is not known; it is taken to be the worker's.`);
  }
  if (isSome(negative_latencies)) {
    notes.push(`${formatCount(negative_latencies)} events have a part below zero, because clocks differ; it is kept.`);
  }
  return (
    <>
      {isSome(dropped_rows) && (
        <Banner tone="warn">
          {formatCount(dropped_rows)} rows were not recorded, because a client's buffer was full or its disk failed.
          Figures are of the others.
        </Banner>
      )}
      {result.files.damaged.length > 0 && (
        <Banner tone="warn">
          {damagedText(Number(result.cut["files.damaged"] ?? result.files.damaged.length))} below.
        </Banner>
      )}
      {notes.length > 0 && <p className="muted small">{notes.join(" ")}</p>}
    </>
  );
}

const damagedText = (count: number): string =>
  count === 1
    ? "One damaged file was left out; it is listed"
    : `${formatCount(count)} damaged files were left out; they are listed`;

interface DoubtsProps {
  result: Result;
  summary: Summary;
}

function DamagedFiles({ result }: { result: Result }) {
  const { damaged } = result.files;
  if (damaged.length === 0) return null;
  return (
    <Card title="Damaged files" hint="listed and left out, never fatal" flush>
      <DataTable
        name="damaged files"
        columns={[
          { key: "file", title: "File", value: ({ file }) => file },
          { key: "reason", title: "Why", value: ({ reason }) => reason },
        ]}
        rows={damaged}
        total={Number(result.cut["files.damaged"] ?? damaged.length)}
        rowKey={({ file }) => file}
        empty={<EmptyState title="No file is damaged" />}
      />
    </Card>
  );
}
