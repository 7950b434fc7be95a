/** Filtering, sorting and paging of rows that are here already. */

export type Value = string | number | bigint | boolean | null | undefined;

/** Orders values of one column; none comes first, texts as people read them ("a2" before "a10"). */
export function compareValues(a: Value, b: Value): number {
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return Number(noB) - Number(noA);
  if (typeof a === "string" || typeof b === "string") {
    return String(a).localeCompare(String(b), undefined, { numeric: true, sensitivity: "base" });
  }
  return a! < b! ? -1 : a! > b! ? 1 : 0; // bigint and number compare exactly
}

export interface Sort {
  key: string;
  descending: boolean;
}

/** The rows in the order of the values; equal ones keep theirs. */
export function sortRows<R>(rows: readonly R[], value: (row: R) => Value, descending: boolean): R[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => sign * compareValues(value(a), value(b)));
}

/** The rows in which every word of the text stands somewhere. */
export function filterRows<R>(rows: readonly R[], text: string, values: (row: R) => readonly Value[]): readonly R[] {
  const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const whole = values(row)
      .map((value) => String(value ?? ""))
      .join("\n")
      .toLocaleLowerCase();
    return words.every((word) => whole.includes(word));
  });
}

/** Page `at` (from 0) of so many rows each; past the end it is the last one. */
export function pageOf<R>(
  rows: readonly R[],
  at: number,
  size: number,
): { rows: readonly R[]; at: number; pages: number } {
  const pages = Math.max(1, Math.ceil(rows.length / size));
  const page = Math.min(Math.max(0, at), pages - 1);
  return { rows: rows.slice(page * size, (page + 1) * size), at: page, pages };
}
