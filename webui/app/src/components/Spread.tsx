import type { Percentiles } from "../api/types";
import { formatMs } from "../lib/numbers";
import "./spread.css";

export interface SpreadPart {
  name: string;
  /** What it measures, from when until when. */
  meaning: string;
  /** Of the tokens --chart-1 to --chart-3; 5 is grey. */
  color: 1 | 2 | 3 | 5;
  of: { [Rank in keyof Percentiles]: number | null } | null;
}

/** Times as percentiles, with a bar each: its full colour reaches to the median, a lighter one to the 99th percentile. */
export function SpreadTable({ label, parts }: { label: string; parts: readonly SpreadPart[] }) {
  const longest = Math.max(...parts.map((part) => part.of?.p99 ?? 0), 0.001);
  return (
    <table className="table spread" aria-label={label}>
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
          <th scope="col" className="spread-bar-cell" aria-hidden="true" />
        </tr>
      </thead>
      <tbody>
        {parts.map((part) => (
          <SpreadRow key={part.name} part={part} longest={longest} />
        ))}
      </tbody>
    </table>
  );
}

function SpreadRow({ part, longest }: { part: SpreadPart; longest: number }) {
  const { name, meaning, color, of } = part;
  const width = (value: number | null | undefined): string => `${Math.max(0, ((value ?? 0) / longest) * 100)}%`;
  return (
    <tr title={meaning}>
      <td className="lead">
        {name} <span className="muted small spread-meaning">{meaning}</span>
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
      <td className="spread-bar-cell bare" aria-hidden="true">
        <div className={`spread-bar spread-bar-${color}`}>
          <div className="spread-far" style={{ width: width(of?.p99) }} />
          <div className="spread-near" style={{ width: width(of?.p50) }} />
        </div>
      </td>
    </tr>
  );
}
