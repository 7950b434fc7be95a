/** What the overlap of subscriptions looks like: heat of a cell, and the graph's nodes and edges. */

/** Steps of heat, the coolest (nothing shared) being 0. */
export const HEAT_STEPS = 5;

/** How hot a cell is: 0 where nothing is shared, 1 to HEAT_STEPS in proportion to the hottest cell. */
export function heat(shared: number, hottest: number): number {
  if (shared <= 0 || hottest <= 0) return 0;
  return Math.max(1, Math.min(HEAT_STEPS, Math.ceil((shared / hottest) * HEAT_STEPS)));
}

/** The largest number of topics that two different clients share. */
export function hottestOf(matrix: readonly (readonly number[])[]): number {
  let most = 0;
  matrix.forEach((row, a) =>
    row.forEach((shared, b) => {
      if (a !== b && shared > most) most = shared;
    }),
  );
  return most;
}

export interface Edge {
  a: number;
  b: number;
  shared: number;
}

/** Pairs of clients that share topics, the lightest first, so that the heaviest are drawn on top. */
export function edges(matrix: readonly (readonly number[])[]): Edge[] {
  const found: Edge[] = [];
  matrix.forEach((row, a) =>
    row.forEach((shared, b) => {
      if (a < b && shared > 0) found.push({ a, b, shared });
    }),
  );
  return found.sort((one, other) => one.shared - other.shared);
}

export interface Point {
  x: number;
  y: number;
  /** Where a label beside the point is anchored, so that it grows away from the circle. */
  anchor: "start" | "middle" | "end";
}

/** Places on a circle around (0, 0), the first one at the top, clockwise. */
export function circle(count: number, radius: number): Point[] {
  return Array.from({ length: count }, (_, at) => {
    const angle = (2 * Math.PI * at) / count - Math.PI / 2;
    const x = radius * Math.cos(angle);
    const anchor = Math.abs(x) < radius * 0.1 ? "middle" : x > 0 ? "start" : "end";
    return { x, y: radius * Math.sin(angle), anchor };
  });
}

/** A name that fits into `most` characters: its end is often what tells clients apart, so the middle goes. */
export function shortened(name: string, most: number): string {
  const letters = Array.from(name);
  if (letters.length <= most) return name;
  const kept = most - 1;
  return `${letters.slice(0, Math.ceil(kept / 2)).join("")}…${letters.slice(-Math.floor(kept / 2)).join("")}`;
}
