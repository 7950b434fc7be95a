/** What a live tail holds: the newest events, bounded, with what was left out counted. */
import type { TailMessage } from "../../api/types";

/** Events that a tail keeps; the oldest go first. */
export const KEPT = 500;

export type TailEvent = Extract<TailMessage, { type: "event" }>;

export type Row = TailEvent & {
  /** Counts up over the life of the tail: a key that never comes again. */
  key: number;
};

export interface Tail {
  rows: readonly Row[];
  seen: number;
  /** Events that the server left out because the browser or the link was too slow. */
  dropped: number;
  /** Events that came while the tail was paused; they are not kept. */
  passed: number;
  isPaused: boolean;
}

export const EMPTY: Tail = { rows: [], seen: 0, dropped: 0, passed: 0, isPaused: false };

export type Happening =
  | { type: "events"; events: readonly TailEvent[] }
  | { type: "dropped"; count: number }
  | { type: "pause" | "resume" | "clear" };

/** The tail after something happened. The newest row is the first. */
export function step(tail: Tail, happening: Happening): Tail {
  switch (happening.type) {
    case "events":
      return taken(tail, happening.events);
    case "dropped":
      return { ...tail, dropped: tail.dropped + happening.count };
    case "pause":
      return { ...tail, isPaused: true };
    case "resume":
      return { ...tail, isPaused: false };
    case "clear":
      return { ...EMPTY, seen: tail.seen, isPaused: tail.isPaused };
  }
}

function taken(tail: Tail, events: readonly TailEvent[]): Tail {
  const seen = tail.seen + events.length;
  if (tail.isPaused) return { ...tail, seen, passed: tail.passed + events.length };
  const fresh = events.slice(-KEPT).reverse();
  const rows = fresh.map((event, at) => ({ ...event, key: seen - at }));
  return { ...tail, seen, rows: [...rows, ...tail.rows].slice(0, KEPT) };
}
