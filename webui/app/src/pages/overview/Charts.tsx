import { useMemo } from "react";
import type { Sample } from "../../api/types";
import { Card, Chart, EmptyState, type ChartLine } from "../../components";
import { formatDecimal, formatMs, formatRate } from "../../lib/numbers";
import { useLive } from "../../live/store";

type Figure = Exclude<keyof Sample, "at">;
type Line = readonly [Figure, string, ChartLine["color"], boolean?];

const FLOW: readonly Line[] = [
  ["timestamps", "Timestamps", 2],
  ["delivered", "Delivered", 1, true],
];
const DISORDER: readonly Line[] = [
  ["late", "Late", 3],
  ["gaps", "Gaps", 4],
  ["duplicates", "Duplicates", 5],
];
const LATENCY: readonly Line[] = [["total_ms_p50", "Publish to delivery, median", 2, true]];

/** The last ten minutes, second by second. */
export function Charts() {
  const samples = useLive((state) => state.samples);
  if (samples.length < 2) {
    return (
      <Card title="Over time">
        <EmptyState title="Nothing to draw yet" icon="overview">
          The control plane remembers the last ten minutes from when it started.
        </EmptyState>
      </Card>
    );
  }
  return (
    <div className="charts">
      <LiveChart
        title="Flow"
        hint="events per second"
        samples={samples}
        lines={FLOW}
        format={formatRate}
        formatTick={formatDecimal}
        wide
      />
      <LiveChart
        title="Disorder"
        hint="events per second"
        samples={samples}
        lines={DISORDER}
        format={formatRate}
        formatTick={formatDecimal}
      />
      <LiveChart title="Latency" samples={samples} lines={LATENCY} format={formatMs} formatTick={formatMs} />
    </div>
  );
}

interface LiveChartProps {
  title: string;
  hint?: string;
  samples: readonly Sample[];
  lines: readonly Line[];
  format: (value: number | null) => string;
  formatTick: (value: number) => string;
  wide?: boolean;
}

function LiveChart({ title, hint, samples, lines, format, formatTick, wide = false }: LiveChartProps) {
  const times = useMemo(() => samples.map(({ at }) => Date.parse(at) / 1000), [samples]);
  const drawn = useMemo(
    () =>
      lines.map(([key, label, color, fill]) => ({
        label,
        color,
        fill: fill ?? false,
        values: samples.map((sample) => sample[key]),
      })),
    [samples, lines],
  );
  const now = drawn.map(({ label, values }) => `${label} ${format(values.at(-1) ?? null)}`).join(", ");
  return (
    <Card title={title} hint={hint} className={wide ? "chart-wide" : ""}>
      <Chart
        label={`${title}. Now: ${now}`}
        times={times}
        lines={drawn}
        format={format}
        formatTick={formatTick}
        height={wide ? 220 : 180}
      />
    </Card>
  );
}
