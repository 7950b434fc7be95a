import type { LatencyPart, Overview } from "../../api/types";
import { Card, EmptyState, SpreadTable, type SpreadPart } from "../../components";

const PARTS: readonly [LatencyPart, string, string, SpreadPart["color"]][] = [
  ["timestamp_ms", "Timestamp", "from publish until the event has its number", 2],
  ["ens_ms", "Broker", "from there until the broker has brought it to the subscriber", 1],
  ["wait_ms", "Waiting", "until everything that comes before it was delivered", 3],
  ["total_ms", "Together", "publish to delivery", 5],
];

/** Where the time between publish and delivery goes. */
export function LatencySplit({ latency }: { latency: Overview["latency"] }) {
  return (
    <Card title="Latency split" hint="as clients report it" flush>
      {latency ? (
        <SpreadTable
          label="Latency split"
          parts={PARTS.map(([part, name, meaning, color]) => ({ name, meaning, color, of: latency[part] }))}
        />
      ) : (
        <EmptyState title="No client reports latencies" icon="analytics">
          Clients do so while they publish and are notified. Start one that connects to these workers.
        </EmptyState>
      )}
    </Card>
  );
}
