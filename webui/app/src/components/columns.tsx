/** Columns that many tables have. */
import type { ReactNode } from "react";
import type { Value } from "../lib/tables";
import type { Column } from "./DataTable";
import { Time } from "./values";

/** Buttons and the like. */
export function actionsColumn<R>(render: (row: R) => ReactNode): Column<R> {
  return { key: "actions", title: "Actions", isData: false, align: "end", value: () => null, render };
}

/** A time, exported in UTC. */
export function timeColumn<R>(key: string, title: string, of: (row: R) => string | null): Column<R> {
  return { key, title, csvTitle: `${title} (UTC)`, value: of, render: (row) => <Time at={of(row)} /> };
}

/** A number that is shown in its own way. */
export function numberColumn<R, V extends Value>(
  [key, title, csvTitle]: readonly [string, string, string?],
  of: (row: R) => V,
  render?: (value: V) => ReactNode,
): Column<R> {
  return { key, title, csvTitle, value: of, render: render && ((row) => render(of(row))), align: "end" };
}
