import { useList } from "../../api/hooks";
import type { Topic } from "../../api/types";
import {
  numberColumn,
  Badge,
  Card,
  DataTable,
  EmptyState,
  Icon,
  Loaded,
  TopicName,
  topicText,
  type Column,
} from "../../components";
import { formatRate, toBigInt } from "../../lib/numbers";
import { setQuery } from "../../router";
import { logText } from "./logText";

const COLUMNS: readonly Column<Topic>[] = [
  {
    key: "topic",
    title: "Topic",
    value: topicText,
    render: (row) => (
      <>
        <TopicName topic={row} /> <Flags topic={row} />
      </>
    ),
  },
  { key: "stage", title: "Stage", value: (row) => row.stage, align: "end", render: (row) => row.stage },
  { key: "rank", title: "Rank", value: (row) => row.rank, align: "end" },
  numberColumn(["rate", "Per s", "Timestamps per second"], (row) => row.rate, formatRate),
  { key: "number", title: "Last", csvTitle: "Last number", value: (row) => toBigInt(row.number), align: "end" },
  { key: "head", title: "Head", csvTitle: "Highest confirmed", value: (row) => toBigInt(row.head), isHidden: true },
  { key: "confirmed", title: "Confirmed", value: (row) => toBigInt(row.confirmed), isHidden: true },
  { key: "pending", title: "Pending", value: (row) => toBigInt(row.pending), align: "end" },
  { key: "void", title: "Void", value: (row) => toBigInt(row.void), align: "end" },
  { key: "abandoned", title: "Abandoned", value: (row) => toBigInt(row.abandoned), align: "end" },
  { key: "late", title: "Late", value: (row) => toBigInt(row.late), align: "end" },
  { key: "subscribers", title: "Subscribers", value: (row) => row.subscribers, align: "end" },
  { key: "group", title: "Group", csvTitle: "Sequencing group", value: (row) => row.group_size, align: "end" },
  { key: "pinned", title: "Pinned", value: (row) => (row.pinned ? "pinned" : null), isHidden: true },
  { key: "log", title: "Event log", value: (row) => row.log && logText(row.log), isHidden: true },
  { key: "id", title: "Id", value: (row) => toBigInt(row.id), isHidden: true },
];

/** All topics with their numbers, current to a few seconds. */
export function TopicTable() {
  const topics = useList<Topic>("/topics", { everyMs: 3000 });
  return (
    <Card flush>
      <Loaded resource={topics} lines={10}>
        {({ items, total }) => (
          <DataTable
            name="topics"
            columns={COLUMNS}
            rows={items}
            total={total}
            rowKey={(row) => row.id}
            initialSort={{ key: "rank", descending: false }}
            onOpen={(row) => setQuery({ topic: row.id }, { replace: false })}
            empty={
              <EmptyState title="No topics yet" icon="topics">
                A topic is created by the first event that is published to it with order, or by hand with “Create
                topic”.
              </EmptyState>
            }
          />
        )}
      </Loaded>
    </Card>
  );
}

function Flags({ topic }: { topic: Topic }) {
  if (!topic.pinned && !topic.log) return null;
  return (
    <span className="flags">
      {topic.pinned && (
        <span title="Pinned to its stage">
          <Icon name="pin" size={14} />
          <span className="visually-hidden">pinned</span>
        </span>
      )}
      {topic.log && (
        <span title={`Event log: ${logText(topic.log)}`}>
          <Badge>log</Badge>
        </span>
      )}
    </span>
  );
}
