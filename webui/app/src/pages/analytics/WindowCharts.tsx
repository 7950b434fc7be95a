import { useMemo } from "react";
import type { Result, WindowFigures } from "../../api/analytics";
import { Card, Chart, EmptyState, type ChartLine } from "../../components";
import { formatCount, formatDecimal, formatMs, formatSeconds } from "../../lib/numbers";
import { percent } from "./figures";
import { clockOf, formatElapsed, overlay, seriesOf, type LineName } from "./windows";

type Color = ChartLine["color"];

interface Plot {
  title: string;
  hint?: string;
  format: (value: number | null) => string;
  wide?: boolean;
}

type PlotOfOne = Plot & { lines: readonly (readonly [LineName, string, Color])[] };

/** A line of few values shows where they are; a value alone has no line at all. */
const MARKED = 60;

const events = (value: number | null): string => formatCount(value === null ? null : Math.round(value));

const PLOTS: readonly PlotOfOne[] = [
  {
    title: "Latency over time",
    hint: "publish to the last notification",
    lines: [
      ["p50", "Median", 2],
      ["p90", "90 %", 1],
      ["p99", "99 %", 3],
    ],
    format: formatMs,
    wide: true,
  },
  { title: "Events over time", lines: [["events", "Events in the window", 2]], format: events },
  { title: "Late over time", lines: [["late", "Late", 3]], format: percent },
];

interface WindowChartsProps {
  windows: readonly WindowFigures[];
  run: string;
  windowS: number;
}

/** How latency, flow and lateness went on, window by window. */
export function WindowCharts({ windows, run, windowS }: WindowChartsProps) {
  const series = useMemo(() => seriesOf(windows, run, windowS), [windows, run, windowS]);
  const clock = useMemo(() => clockOf(series.times), [series]);
  if (series.times.length < 2) return <TooFew windowS={windowS} />;
  return (
    <div className="charts">
      {PLOTS.map((plot) => (
        <PlotCard
          key={plot.title}
          plot={plot}
          times={series.times}
          lines={plot.lines.map(([name, label, color]) => ({ label, color, values: series[name] }))}
          formatTime={clock}
        />
      ))}
    </div>
  );
}

function TooFew({ windowS }: { windowS: number }) {
  return (
    <Card title="Over time">
      <EmptyState title="One window is no course" icon="analytics">
        All events fall into one window of {formatSeconds(windowS)}. An analysis with a shorter window shows how the
        figures went on.
      </EmptyState>
    </Card>
  );
}

/** Of two analyses, what is drawn of each: two lines are still told apart, six are not. */
const COMPARED: readonly (readonly [LineName, string, Plot["format"]])[] = [
  ["p50", "Latency, median", formatMs],
  ["p99", "Latency, 99 %", formatMs],
  ["events", "Events in the window", events],
  ["late", "Late", percent],
];

/** The same over two analyses, each from its own first window on. */
export function ComparedCharts({ a, b, runs }: { a: Result; b: Result; runs: readonly [string, string] }) {
  const both = useMemo(
    () =>
      overlay(
        seriesOf(a.by_window, runs[0], a.window_s, { elapsed: true }),
        seriesOf(b.by_window, runs[1], b.window_s, { elapsed: true }),
      ),
    [a, b, runs],
  );
  if (both.times.length < 2) return <TooFew windowS={Math.max(a.window_s, b.window_s)} />;
  const lines = (name: LineName): ChartLine[] => [
    { label: "A", color: 2, values: both.a[name] },
    { label: "B", color: 3, values: both.b[name] },
  ];
  return (
    <div className="charts">
      {COMPARED.map(([name, title, format]) => (
        <PlotCard
          key={name}
          plot={{ title, hint: "since the first window of each", format }}
          times={both.times}
          lines={lines(name)}
          formatTime={formatElapsed}
        />
      ))}
    </div>
  );
}

interface PlotCardProps {
  plot: Plot;
  times: readonly number[];
  lines: ChartLine[];
  formatTime: (seconds: number) => string;
}

function PlotCard({ plot, times, lines, formatTime }: PlotCardProps) {
  const { title, hint, format, wide = false } = plot;
  const ends = lines.map(({ label, values }) => `${label} ${range(values, format)}`).join("; ");
  return (
    <Card title={title} hint={hint} className={wide ? "chart-wide" : ""}>
      <Chart
        label={`${title}. ${ends}`}
        times={times}
        lines={lines}
        format={format}
        formatTick={format === formatMs ? formatMs : formatDecimal}
        formatTime={formatTime}
        height={wide ? 220 : 180}
        hasPoints={times.length <= MARKED}
      />
    </Card>
  );
}

/** What can be said of a line in words. */
function range(values: ChartLine["values"], format: Plot["format"]): string {
  const known = values.filter((value): value is number => typeof value === "number");
  return known.length === 0 ? "not known" : `${format(Math.min(...known))} to ${format(Math.max(...known))}`;
}
