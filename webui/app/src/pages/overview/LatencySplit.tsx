import type { LatencyPart, Overview, Percentiles } from "../../api/types";
import { Card, EmptyState } from "../../components";
import { formatMs } from "../../lib/numbers";

const PARTS: readonly [LatencyPart, string, string, number][] = [
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
        <Split latency={latency} />
      ) : (
        <EmptyState title="No client reports latencies" icon="analytics">
          Clients do so while they publish and are notified. Start one that connects to these workers.
        </EmptyState>
      )}
    </Card>
  );
}

function Split({ latency }: { latency: Record<LatencyPart, Percentiles | null> }) {
  const longest = Math.max(...PARTS.map(([part]) => latency[part]?.p99 ?? 0), 0.001);
  return (
    <table className="table split" aria-label="Latency split">
      <thead>
        <tr>
          <th scope="col">Part</th>
          <th scope="col" className="end">
            Median
          </th>
          <th scope="col" className="end">
            90 %
          </th>
          <th scope="col" className="end">
            99 %
          </th>
          <th scope="col" className="split-bar-cell" aria-hidden="true" />
        </tr>
      </thead>
      <tbody>
        {PARTS.map(([part, name, meaning, color]) => (
          <SplitRow key={part} name={name} meaning={meaning} color={color} of={latency[part]} longest={longest} />
        ))}
      </tbody>
    </table>
  );
}

interface SplitRowProps {
  name: string;
  meaning: string;
  color: number;
  of: Percentiles | null;
  longest: number;
}

/** The bar reaches to the median in full colour and on to the 99th percentile in a lighter one. */
function SplitRow({ name, meaning, color, of, longest }: SplitRowProps) {
  const width = (value: number | undefined): string => `${Math.max(0, ((value ?? 0) / longest) * 100)}%`;
  return (
    <tr title={meaning}>
      <td className="lead">
        {name} <span className="muted small split-meaning">{meaning}</span>
      </td>
      <td className="end" data-label="Median">
        {formatMs(of?.p50)}
      </td>
      <td className="end" data-label="90 %">
        {formatMs(of?.p90)}
      </td>
      <td className="end" data-label="99 %">
        {formatMs(of?.p99)}
      </td>
      <td className="split-bar-cell bare" aria-hidden="true">
        <div className={`split-bar split-bar-${color}`}>
          <div className="split-far" style={{ width: width(of?.p99) }} />
          <div className="split-near" style={{ width: width(of?.p50) }} />
        </div>
      </td>
    </tr>
  );
}
