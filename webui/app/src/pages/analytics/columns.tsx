/** Columns that tables of results share. */
import type { Spread, Whole } from "../../api/analytics";
import type { Column } from "../../components";
import { formatMs, toBigInt } from "../../lib/numbers";
import { percent } from "./figures";

/** A whole number of up to 64 bits, with all its digits. */
export function wholeColumn<R>(key: string, title: string, of: (row: R) => Whole): Column<R> {
  return { key, title, value: (row) => toBigInt(of(row)), align: "end" };
}

export function percentColumn<R>(key: string, title: string, of: (row: R) => number | null): Column<R> {
  return { key, title, csvTitle: `${title} (%)`, value: of, render: (row) => percent(of(row)), align: "end" };
}

/** Median, 90 % and 99 %. */
export function spreadColumns<R>(of: (row: R) => Spread): Column<R>[] {
  return (["p50", "p90", "p99"] as const).map((rank) => ({
    key: rank,
    title: rank === "p50" ? "Median" : `${rank.slice(1)} %`,
    csvTitle: `Latency ${rank} (ms)`,
    value: (row: R) => of(row)[rank],
    render: (row: R) => formatMs(of(row)[rank]),
    align: "end" as const,
  }));
}

/** The recorded run, where rows of several are in the table. */
export function runColumn<R extends { run: string }>(rows: readonly R[]): Column<R>[] {
  const isOne = new Set(rows.map(({ run }) => run)).size < 2;
  return isOne ? [] : [{ key: "run", title: "Run", value: ({ run }) => run }];
}
