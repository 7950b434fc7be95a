import { describe, expect, it } from "vitest";
import { EMPTY, KEPT, step, type TailEvent } from "../../src/pages/events/tail";

const event = (number: number): TailEvent => ({
  type: "event",
  topic: { space: "mqtt", name: "t" },
  number: String(number),
  late: false,
  retained: false,
  truncated: false,
  at: "2026-01-05T09:00:00.000Z",
  payload_text: "x",
  payload_base64: null,
  size: 1,
});
const events = (first: number, count: number) => Array.from({ length: count }, (_, at) => event(first + at));

describe("a tail", () => {
  it("shows the newest first, each with a key of its own", () => {
    const tail = step(step(EMPTY, { type: "events", events: events(1, 2) }), { type: "events", events: events(3, 2) });
    expect(tail.rows.map((each) => each.number)).toEqual(["4", "3", "2", "1"]);
    expect(new Set(tail.rows.map((each) => each.key)).size).toBe(4);
  });

  it("is bounded, however much comes at once", () => {
    const tail = step(step(EMPTY, { type: "events", events: events(1, 10) }), {
      type: "events",
      events: events(11, 3 * KEPT),
    });
    expect(tail.rows.length).toBe(KEPT);
    expect(tail.rows[0]?.number).toBe(String(10 + 3 * KEPT));
    expect(tail.seen).toBe(10 + 3 * KEPT);
  });

  it("counts what passes while it is paused, and goes on after that", () => {
    const paused = step(step(EMPTY, { type: "events", events: events(1, 1) }), { type: "pause" });
    const after = step(step(paused, { type: "events", events: events(2, 5) }), { type: "resume" });
    expect([after.rows.length, after.passed, after.isPaused]).toEqual([1, 5, false]);
    expect(step(after, { type: "events", events: events(7, 1) }).rows.map((each) => each.number)).toEqual(["7", "1"]);
  });

  it("says how many the server left out, until it is cleared", () => {
    const tail = step(step(EMPTY, { type: "dropped", count: 3 }), { type: "dropped", count: 4 });
    expect(tail.dropped).toBe(7);
    expect(step(tail, { type: "clear" })).toEqual(EMPTY);
  });
});
