/** Figures over windows of time as lines of a chart. */
import type { WindowFigures } from "../../api/analytics";
import { toBigInt } from "../../lib/numbers";

export const LINES = ["events", "late", "p50", "p90", "p99"] as const;
export type LineName = (typeof LINES)[number];

/** Values by window. Null: nothing is known there; undefined: the other one of two series has a value there. */
type Values = (number | null | undefined)[];

export type Series = { times: number[] } & Record<LineName, Values>;

const VALUE: Record<LineName, (row: WindowFigures) => number | null> = {
  // Drawn, not written: the digits that a number loses beyond 2^53 are not to be seen.
  events: ({ events }) => Number(toBigInt(events) ?? 0n),
  late: ({ late_percent }) => late_percent,
  p50: ({ latency_ms }) => latency_ms.p50,
  p90: ({ latency_ms }) => latency_ms.p90,
  p99: ({ latency_ms }) => latency_ms.p99,
};

const startOf = ({ start }: WindowFigures): number => Date.parse(start) / 1000;

/**
 * The windows of one recorded run in the order of time. Windows without events are not in a result: where there are
 * some, the line is interrupted, and the count of events is 0.
 */
export function seriesOf(
  rows: readonly WindowFigures[],
  run: string,
  windowS: number,
  { elapsed = false } = {},
): Series {
  const mine = rows.filter((row) => row.run === run).sort((a, b) => startOf(a) - startOf(b));
  const zero = elapsed && mine[0] ? startOf(mine[0]) : 0;
  const series = emptySeries();
  for (const row of mine) {
    const at = startOf(row) - zero;
    const before = series.times.at(-1);
    if (before !== undefined && at - before > windowS * 1.5) {
      pushQuiet(series, before + windowS);
      if (at - before > windowS * 2.5) pushQuiet(series, at - windowS);
    }
    series.times.push(at);
    for (const name of LINES) series[name].push(VALUE[name](row));
  }
  return series;
}

const emptySeries = (): Series => ({ times: [], events: [], late: [], p50: [], p90: [], p99: [] });

function pushQuiet(series: Series, at: number): void {
  series.times.push(at);
  for (const name of LINES) series[name].push(name === "events" ? 0 : null);
}

/** Two series over the times of both; a line goes on where only the other one has a value. */
export function overlay(a: Series, b: Series): { times: number[]; a: Series; b: Series } {
  const times = [...new Set([...a.times, ...b.times])].sort((x, y) => x - y);
  return { times, a: spread(a, times), b: spread(b, times) };
}

function spread(series: Series, times: number[]): Series {
  const index = new Map(series.times.map((time, at) => [time, at]));
  const values = (name: LineName): Values =>
    times.map((time) => {
      const at = index.get(time);
      return at === undefined ? undefined : series[name][at];
    });
  return {
    times,
    events: values("events"),
    late: values("late"),
    p50: values("p50"),
    p90: values("p90"),
    p99: values("p99"),
  };
}

/** The recorded run with the newest window; what is shown where no other was asked for. */
export function newestRun(rows: readonly WindowFigures[]): string | null {
  const newest = rows.reduce<WindowFigures | null>(
    (best, row) => (best === null || startOf(row) > startOf(best) ? row : best),
    null,
  );
  return newest?.run ?? null;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** Since a beginning: "1:05", "2:00:10". */
export function formatElapsed(seconds: number): string {
  const whole = Math.round(seconds);
  const [h, min, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h > 0 ? `${h}:${pad(min)}:${pad(s)}` : `${min}:${pad(s)}`;
}

/** The time of the day, with the day where the windows are of several. */
export function clockOf(times: readonly number[]): (seconds: number) => string {
  const day = (seconds: number): string => new Date(seconds * 1000).toDateString();
  const isOneDay = times.length === 0 || day(times[0]!) === day(times.at(-1)!);
  return (seconds) => {
    const date = new Date(seconds * 1000);
    const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
    return isOneDay ? clock : `${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock.slice(0, 5)}`;
  };
}
