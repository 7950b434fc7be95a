import type { ReactNode } from "react";
import type { StuckNumber, Topic } from "../../api/types";
import {
  actionsColumn,
  numberColumn,
  Badge,
  Button,
  DataTable,
  EventLink,
  Range,
  StateBadge,
  TopicName,
  topicText,
  type Column,
} from "../../components";
import { formatCount, formatSeconds, toBigInt } from "../../lib/numbers";
import { inWords, type Action } from "./consequence";

interface GapTableProps {
  rows: readonly StuckNumber[];
  total: number;
  topics: ReadonlyMap<string, Topic>;
  onSettle: (row: StuckNumber, action: Action) => void;
  onReplay: (row: StuckNumber) => void;
  empty: ReactNode;
}

/** What is stuck, why, since when, whom it holds back, and what can be done. */
export function GapTable({ rows, total, topics, onSettle, onReplay, empty }: GapTableProps) {
  return (
    <DataTable
      name="stuck numbers"
      columns={[...columnsWith(topics), actions(topics, onSettle, onReplay)]}
      rows={rows}
      total={total}
      rowKey={({ topic, first, last }) => `${topic.id} ${first} ${last}`}
      initialSort={{ key: "age", descending: true }}
      empty={empty}
    />
  );
}

function columnsWith(topics: ReadonlyMap<string, Topic>): Column<StuckNumber>[] {
  return [
    {
      key: "topic",
      title: "Topic",
      value: ({ topic }) => topicText(topic),
      render: ({ topic }) => <TopicName topic={topic} link />,
    },
    {
      key: "first",
      title: "Numbers",
      csvTitle: "First",
      value: ({ first }) => toBigInt(first),
      render: ({ topic, first, last }) =>
        first === last ? <EventLink topic={topic} number={first} /> : <Range first={first} last={last} />,
      align: "end",
    },
    { key: "last", title: "Last", value: ({ last }) => toBigInt(last), isHidden: true },
    {
      key: "reason",
      title: "Why",
      value: ({ reason }) => reason,
      render: ({ state, reason }) => (
        <>
          {state !== "pending" && <StateBadge state={state} />} {reason}
        </>
      ),
    },
    { key: "client", title: "Publisher", value: ({ client }) => client },
    numberColumn(["age", "For", "For (s)"], ({ age_s }) => age_s, formatSeconds),
    {
      key: "waiting",
      title: "Holds back",
      csvTitle: "Subscribers of the topic",
      value: ({ topic }) => topics.get(topic.id)?.subscribers,
      render: ({ topic, waiting, holds }) => (
        <>
          <Waiting topic={topics.get(topic.id)} />
          {holds && (
            <span className="small muted">
              {" "}
              {waiting.join(", ")} with {topicText(holds.topic)} <EventLink topic={holds.topic} number={holds.number} />
            </span>
          )}
        </>
      ),
    },
    {
      key: "logged",
      title: "Event log",
      value: ({ logged }) => logged,
      render: ({ logged }) => (logged ? <Badge tone="ok">has it</Badge> : <span className="muted">does not</span>),
    },
  ];
}

function Waiting({ topic }: { topic: Topic | undefined }) {
  if (!topic) return <span className="muted">–</span>;
  if (topic.subscribers === 0) return <span className="muted">nobody</span>;
  const others = topic.group_size > 0 ? ", through its group other topics too" : "";
  return (
    <span className="nowrap" title={`Subscribers of the topic wait at this number${others}.`}>
      {formatCount(topic.subscribers)} {topic.subscribers === 1 ? "subscriber" : "subscribers"}
    </span>
  );
}

function actions(
  topics: ReadonlyMap<string, Topic>,
  onSettle: GapTableProps["onSettle"],
  onReplay: GapTableProps["onReplay"],
): Column<StuckNumber> {
  return actionsColumn((row) => {
    const what = `${inWords(row)} of ${row.topic.name}`;
    const settle = (action: Action, title: string, isDanger: boolean) => (
      <Button
        size="small"
        needs="operator"
        variant={isDanger ? "danger" : "default"}
        aria-label={`${title} ${what}`}
        onClick={() => onSettle(row, action)}
      >
        {title}…
      </Button>
    );
    return (
      <span className="row-actions">
        {topics.get(row.topic.id)?.log && (
          <Button size="small" aria-label={`Replay the event log around ${what}`} onClick={() => onReplay(row)}>
            Replay…
          </Button>
        )}
        {row.client !== null && row.logged && settle("repair", "Repair", false)}
        {row.client !== null && !row.logged && settle("abandoned", "Release", false)}
      </span>
    );
  });
}
