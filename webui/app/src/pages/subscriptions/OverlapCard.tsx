import { useState } from "react";
import type { Overlap } from "../../api/types";
import { Button, Card, Dialog, EmptyState, Tabs, TopicName } from "../../components";
import { csvName, download, toCsv } from "../../lib/csv";
import { HeatTable } from "./HeatTable";
import { OverlapGraph } from "./OverlapGraph";

export interface Pair {
  a: number;
  b: number;
}

/** Who shares how many topics with whom: as a table of heat, and as a graph. */
export function OverlapCard({ overlap }: { overlap: Overlap }) {
  const [view, setView] = useState("matrix");
  const [pair, setPair] = useState<Pair | null>(null);
  if (overlap.clients.length < 2) {
    return (
      <Card title="Who shares what">
        <EmptyState title="Nothing to compare yet" icon="subscriptions">
          With a second subscriber you see here how many topics the two share, and what that costs.
        </EmptyState>
      </Card>
    );
  }
  const { clients, clients_total: total } = overlap;
  const bound = clients.length < total ? `The ${clients.length} of ${total} clients that share most. ` : "";
  const exportCsv = (): void => {
    const rows = overlap.matrix.map((row, at) => [overlap.clients[at], ...row]);
    download(csvName("overlap"), toCsv(["client", ...overlap.clients], rows));
  };
  return (
    <Card
      title="Who shares what"
      hint={`${bound}How many topics two clients both read. Choose a cell or a line to see which.`}
      actions={
        <Button size="small" icon="download" onClick={exportCsv}>
          CSV
        </Button>
      }
    >
      <Tabs
        label="How the overlap is shown"
        current={view}
        onChange={setView}
        tabs={[
          { id: "matrix", title: "Matrix", panel: () => <HeatTable overlap={overlap} onOpen={setPair} /> },
          { id: "graph", title: "Graph", panel: () => <OverlapGraph overlap={overlap} onOpen={setPair} /> },
        ]}
      />
      {pair && <PairDialog overlap={overlap} pair={pair} onClose={() => setPair(null)} />}
    </Card>
  );
}

function PairDialog({ overlap, pair, onClose }: { overlap: Overlap; pair: Pair; onClose: () => void }) {
  const [one, other] = [overlap.clients[pair.a], overlap.clients[pair.b]];
  const shared = overlap.matrix[pair.a]?.[pair.b] ?? 0;
  const known = overlap.pairs.find(({ a, b }) => (a === one && b === other) || (a === other && b === one));
  const topics = known?.topics ?? [];
  return (
    <Dialog title={`${one} and ${other}`} onClose={onClose}>
      <p>{sharedSentence(shared)}</p>
      <ul className="topic-list">
        {topics.map((topic) => (
          <li key={topic.id}>
            <TopicName topic={topic} link />
          </li>
        ))}
        {shared > topics.length && <li className="muted">and {shared - topics.length} more</li>}
      </ul>
    </Dialog>
  );
}

function sharedSentence(shared: number): string {
  if (shared === 0) return "They share no topic.";
  if (shared === 1) return "They share one topic. Its own numbers order it; nothing more is needed.";
  return `They share ${shared} topics. These are in one sequencing group: each one's timestamps carry numbers of the others.`;
}
