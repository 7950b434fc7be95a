import type { Overlap } from "../../api/types";
import { Badge, Card, DataTable, EmptyState, TopicName, topicText, type Column } from "../../components";
import { Link } from "../../router";

type SequencedPair = Overlap["sequenced_pairs"][number];

/** Pairs of topics that two or more subscribers have both: each one's timestamps carry the other's number. */
export function SequencedPairs({ pairs, total }: { pairs: readonly SequencedPair[]; total: number }) {
  return (
    <Card
      title="Pairs of topics that cost sequencing"
      hint={
        <>
          A timestamp visits every stage between its topic and the highest of its group. Topics that lie far apart come
          closer on the page <Link to="/topics">Topics</Link>.
        </>
      }
      flush
    >
      <DataTable
        name="pairs of topics"
        columns={COLUMNS}
        rows={pairs}
        total={total}
        rowKey={({ topics: [one, other] }) => `${one.id} ${other.id}`}
        initialSort={{ key: "apart", descending: true }}
        pageSize={20}
        empty={
          <EmptyState title="No pair of topics costs sequencing" icon="ok">
            No two subscribers share two topics, so each topic's own numbers are order enough. Nothing to do.
          </EmptyState>
        }
      />
    </Card>
  );
}

const COLUMNS: Column<SequencedPair>[] = [
  {
    key: "one",
    title: "Topic",
    value: ({ topics: [one] }) => topicText(one),
    render: ({ topics: [one] }) => <TopicName topic={one} link />,
  },
  {
    key: "other",
    title: "And topic",
    value: ({ topics: [, other] }) => topicText(other),
    render: ({ topics: [, other] }) => <TopicName topic={other} link />,
  },
  { key: "subscribers", title: "Subscribers of both", value: ({ subscribers }) => subscribers, align: "end" },
  {
    key: "apart",
    title: "Stages apart",
    value: ({ stages_apart }) => stages_apart,
    render: ({ stages_apart }) => <Badge tone={stages_apart > 0 ? "warn" : "neutral"}>{stages_apart}</Badge>,
    align: "end",
  },
];
