import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./chart.css";
import { useTheme } from "../lib/theme";

export interface ChartLine {
  label: string;
  /** One per time; null where nothing is known, undefined where the line goes on to its next value. */
  values: readonly (number | null | undefined)[];
  /** Of the tokens --chart-1 to --chart-5. */
  color: 1 | 2 | 3 | 4 | 5;
  /** Fills the area below. */
  fill?: boolean;
}

interface ChartProps {
  /** What is seen, for those who cannot see it. */
  label: string;
  /** Seconds since 1970, or of whatever `formatTime` writes. */
  times: readonly number[];
  lines: readonly ChartLine[];
  format: (value: number | null) => string;
  /** For the ticks of the axis, if not the same. */
  formatTick?: (value: number) => string;
  /** What stands below the chart and beside its cursor; the time of the day otherwise. */
  formatTime?: (seconds: number) => string;
  height?: number;
  /** Marks each value: where there are few of them, or some with none beside them. */
  hasPoints?: boolean;
}

const token = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Lines over time. The legend shows the values under the cursor, else the newest. */
export function Chart(props: ChartProps) {
  const { label, times, lines, format, formatTick = format, formatTime = clock } = props;
  const { height = 180, hasPoints = false } = props;
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const { theme } = useTheme();
  const data = useMemo(
    () => [times, ...lines.map(({ values }) => values)] as unknown as uPlot.AlignedData,
    [times, lines],
  );
  const latest = useRef(data);
  latest.current = data;
  const writeTime = useRef(formatTime);
  writeTime.current = formatTime;
  const shape = lines.map(({ label, color, fill }) => `${label} ${color} ${fill}`).join();

  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const made = new uPlot(
      options({
        width: element.clientWidth,
        height,
        lines,
        hasPoints,
        formatTick,
        formatTime: (seconds) => writeTime.current(seconds),
        onCursor: setAt,
      }),
      latest.current,
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      plot.current = null;
      made.destroy();
    };
    // Values come through setData; only what changes the looks makes a new plot.
  }, [shape, height, hasPoints, theme]);

  useEffect(() => plot.current?.setData(data), [data]);

  const index = at !== null && at < times.length ? at : times.length - 1;
  return (
    <figure className="chart">
      <figcaption className="chart-legend">
        {lines.map(({ label: name, color, values }) => (
          <span key={name} className="chart-key">
            <span className={`chart-swatch chart-swatch-${color}`} />
            {name} <b className="num">{format(values[index] ?? null)}</b>
          </span>
        ))}
        {at !== null && times[index] !== undefined && <span className="chart-at num">{formatTime(times[index])}</span>}
      </figcaption>
      <div ref={frame} className="chart-frame" role="img" aria-label={label} />
    </figure>
  );
}

interface Look {
  width: number;
  height: number;
  lines: readonly ChartLine[];
  hasPoints: boolean;
  formatTick: (value: number) => string;
  formatTime: (seconds: number) => string;
  onCursor: (at: number | null) => void;
}

function options(look: Look): uPlot.Options {
  const { width, height, lines, hasPoints, formatTick, formatTime, onCursor } = look;
  const axis = { stroke: token("--chart-axis"), font: `11px ${token("--font")}`, ticks: { show: false } };
  const grid = { stroke: token("--chart-grid"), width: 1 };
  return {
    width,
    height,
    padding: [8, 4, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 80, values: (_plot, ticks) => ticks.map(formatTime), size: 22 },
      { ...axis, grid, space: 36, size: 52, values: (_plot, ticks) => ticks.map(formatTick) },
    ],
    series: [
      {},
      ...lines.map(({ label, color, fill }) => ({
        label,
        stroke: token(`--chart-${color}`),
        width: 1.5,
        points: { show: hasPoints, size: 5 },
        ...(fill ? { fill: `${token(`--chart-${color}`)}1f` } : {}),
      })),
    ],
    hooks: { setCursor: [(made) => onCursor(made.cursor.idx ?? null)] },
  };
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  });
}
