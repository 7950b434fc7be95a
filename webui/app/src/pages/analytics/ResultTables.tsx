import type {
  PairFigures,
  Result,
  StageOverhead,
  SubscriberFigures,
  TopicFigures,
  TopicPopularity,
} from "../../api/analytics";
import { numberColumn, Card, DataTable, EmptyState, Tabs, type Column } from "../../components";
import { formatCount, formatDecimal, toBigInt } from "../../lib/numbers";
import { setQuery, useLocation } from "../../router";
import { percentColumn, runColumn, spreadColumns, wholeColumn } from "./columns";
import { degree, witnessText } from "./figures";

type Rows<R> = readonly R[];

interface ResultTablesProps {
  result: Result;
  /** Rows of this recorded run only; null: of all. */
  run: string | null;
}

/** What the figures are made of: by topic, by subscriber, by pair, by stage. */
export function ResultTables({ result, run }: ResultTablesProps) {
  const { query } = useLocation();
  const of = <R extends { run: string }>(rows: Rows<R>): Rows<R> =>
    run === null ? rows : rows.filter((row) => row.run === run);
  // A list that was cut says how many there were of all runs; of one run that is not known.
  const total = (list: string): number | undefined =>
    run === null && result.cut[list] !== undefined ? Number(result.cut[list]) : undefined;
  return (
    <Tabs
      label="Figures by"
      current={query.get("by") ?? "topics"}
      onChange={(by) => setQuery({ by: by === "topics" ? null : by })}
      tabs={[
        { id: "topics", title: "Topics", panel: () => <Topics rows={of(result.by_topic)} total={total("by_topic")} /> },
        {
          id: "subscribers",
          title: "Subscribers",
          panel: () => <Subscribers rows={of(result.by_subscriber)} total={total("by_subscriber")} />,
        },
        { id: "pairs", title: "Worst pairs", panel: () => <Pairs rows={of(result.worst_pairs)} result={result} /> },
        { id: "popularity", title: "Popularity", panel: () => <Popularity rows={of(result.popularity)} /> },
        { id: "stages", title: "Stages", panel: () => <Stages rows={of(result.message_overhead)} /> },
      ]}
    />
  );
}

const notificationColumns = <R extends TopicFigures | SubscriberFigures>(): Column<R>[] => [
  wholeColumn("events", "Events", ({ events }) => events),
  percentColumn("late", "Late", ({ late_percent }) => late_percent),
  percentColumn("in_1s", "Notified in 1 s", ({ notified_1s_percent }) => notified_1s_percent),
  ...spreadColumns<R>(({ latency_ms }) => latency_ms),
];

const BUSIEST = { key: "events", descending: true };

function Topics({ rows, total }: { rows: Rows<TopicFigures>; total: number | undefined }) {
  return (
    <Card title="Topics" hint="latency: publish to the last subscriber" flush>
      <DataTable
        name="topics of the analysis"
        columns={[
          { key: "topic", title: "Topic", value: ({ topic }) => topic },
          ...runColumn(rows),
          ...notificationColumns<TopicFigures>(),
        ]}
        rows={rows}
        {...(total === undefined ? {} : { total })}
        rowKey={({ run, topic }) => JSON.stringify([run, topic])}
        initialSort={BUSIEST}
        empty={<EmptyState title="No topic has an event">The traces tell of no event with a number.</EmptyState>}
      />
    </Card>
  );
}

function Subscribers({ rows, total }: { rows: Rows<SubscriberFigures>; total: number | undefined }) {
  return (
    <Card title="Subscribers" hint="latency: publish to its own notification" flush>
      <DataTable
        name="subscribers of the analysis"
        columns={[
          { key: "client", title: "Client", value: ({ client }) => client },
          ...runColumn(rows),
          ...notificationColumns<SubscriberFigures>(),
        ]}
        rows={rows}
        {...(total === undefined ? {} : { total })}
        rowKey={({ run, client }) => JSON.stringify([run, client])}
        initialSort={BUSIEST}
        empty={
          <EmptyState title="No subscriber recorded anything">
            The traces are of publishers only. Let the subscribers record, too.
          </EmptyState>
        }
      />
    </Card>
  );
}

const PAIRS: readonly Column<PairFigures>[] = [
  {
    key: "a",
    title: "Subscribers",
    csvTitle: "Subscriber",
    value: ({ a }) => a,
    render: (pair) => (
      <>
        {pair.a} and {pair.b}
        {pair.witness && <span className="figure-meaning">{witnessText(pair)}</span>}
      </>
    ),
  },
  { key: "b", title: "Other subscriber", value: ({ b }) => b, isHidden: true },
  wholeColumn("length", "Common events", ({ length }) => length),
  numberColumn(["degree_raw", "Degree, broker"], (pair) => pair.ordering_degree_raw, degree),
  numberColumn(["degree", "Degree, delivered"], (pair) => pair.ordering_degree_delivered, degree),
  wholeColumn("violations_raw", "Violations, broker", (pair) => pair.tno_violations_raw),
  {
    ...wholeColumn<PairFigures>("violations", "Violations, delivered", (pair) => pair.tno_violations_delivered),
    render: ({ tno_violations_delivered: count }) =>
      toBigInt(count) === 0n ? <span className="zero">0</span> : <b className="tone-bad">{formatCount(count)}</b>,
  },
  { key: "witness", title: "For example", value: (pair) => witnessText(pair), isHidden: true },
];

function Pairs({ rows, result }: { rows: Rows<PairFigures>; result: Result }) {
  const { total, used, seed } = result.pairs;
  const isSample = toBigInt(used) !== toBigInt(total);
  const hint = isSample
    ? `${formatCount(used)} of ${formatCount(total)} pairs were compared, a sample by the seed ${formatCount(seed)}`
    : `all ${formatCount(total)} pairs were compared`;
  return (
    <Card title="Pairs that agreed least" hint={hint} flush>
      <DataTable
        name="worst pairs"
        columns={[...PAIRS.slice(0, 2), ...runColumn(rows), ...PAIRS.slice(2)]}
        rows={rows}
        rowKey={({ run, a, b }) => JSON.stringify([run, a, b])}
        empty={
          <EmptyState title="No two subscribers to compare">
            Order is a matter between at least two subscribers of the same topics.
          </EmptyState>
        }
      />
    </Card>
  );
}

function Popularity({ rows }: { rows: Rows<TopicPopularity> }) {
  return (
    <Card title="Popularity" hint="events per 1,000 of all" flush>
      <DataTable
        name="popularity"
        columns={[
          { key: "topic", title: "Topic", value: ({ topic }) => topic },
          ...runColumn(rows),
          wholeColumn<TopicPopularity>("events", "Events", ({ events }) => events),
          numberColumn(["per_1000", "Per 1,000"], (row: TopicPopularity) => row.per_1000, formatDecimal),
        ]}
        rows={rows}
        rowKey={({ run, topic }) => JSON.stringify([run, topic])}
        empty={<EmptyState title="Nothing was published" />}
      />
    </Card>
  );
}

function Stages({ rows }: { rows: Rows<StageOverhead> }) {
  return (
    <Card title="Message overhead" hint="what a stage handles for topics of other stages" flush>
      <DataTable
        name="stages of the analysis"
        columns={[
          { key: "stage", title: "Stage", value: ({ stage }) => stage, render: ({ stage }) => `Stage ${stage}` },
          ...runColumn(rows),
          wholeColumn<StageOverhead>("own", "Own events", ({ own }) => own),
          wholeColumn<StageOverhead>("foreign", "Of other stages", ({ foreign }) => foreign),
          percentColumn<StageOverhead>("percent", "Overhead", ({ percent }) => percent),
        ]}
        rows={rows}
        rowKey={({ run, stage }) => JSON.stringify([run, stage])}
        empty={
          <EmptyState title="No stage is known">
            Publishers record which stages their timestamps visited; these traces tell of none.
          </EmptyState>
        }
      />
    </Card>
  );
}
