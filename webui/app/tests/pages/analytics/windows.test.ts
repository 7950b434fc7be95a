import { describe, expect, it } from "vitest";
import { clockOf, formatElapsed, newestRun, overlay, seriesOf } from "../../../src/pages/analytics/windows";
import { windowAt } from "./sample";

const at = (minute: number): string => `2026-03-01T09:${String(minute).padStart(2, "0")}:00Z`;
const seconds = (minute: number): number => Date.parse(at(minute)) / 1000;

describe("the windows of a run", () => {
  it("come in the order of time, without those of others", () => {
    const rows = [windowAt(at(1), { events: 7 }), windowAt(at(0)), windowAt(at(0), { run: "other" })];
    const series = seriesOf(rows, "default", 60);
    expect(series.times).toEqual([seconds(0), seconds(1)]);
    expect(series.events).toEqual([10, 7]);
    expect(series.p99).toEqual([8, 8]);
  });

  it("are interrupted where there was nothing", () => {
    const series = seriesOf([windowAt(at(0)), windowAt(at(9))], "default", 60);
    expect(series.times).toEqual([0, 1, 8, 9].map(seconds));
    expect(series.events).toEqual([10, 0, 0, 10]);
    expect(series.p50).toEqual([2, null, null, 2]);
    const short = seriesOf([windowAt(at(0)), windowAt(at(2))], "default", 60);
    expect(short.times).toEqual([0, 1, 2].map(seconds));
  });

  it("of an unknown run are none", () => {
    expect(seriesOf([windowAt(at(0))], "other", 60).times).toEqual([]);
  });
});

describe("two series over each other", () => {
  it("begin together, and a line goes on over the other's times", () => {
    const a = seriesOf([windowAt(at(3)), windowAt(at(4))], "default", 60, { elapsed: true });
    const b = seriesOf([windowAt(at(7)), windowAt(at(8), { events: 3 })], "default", 90, { elapsed: true });
    expect(a.times).toEqual([0, 60]);
    const odd = { ...b, times: [0, 90] };
    const both = overlay(a, odd);
    expect(both.times).toEqual([0, 60, 90]);
    expect(both.a.events).toEqual([10, 10, undefined]);
    expect(both.b.events).toEqual([10, undefined, 3]);
  });
});

it("the newest run is the one with the newest window", () => {
  expect(newestRun([])).toBeNull();
  expect(newestRun([windowAt(at(1), { run: "b" }), windowAt(at(5), { run: "a" })])).toBe("a");
});

it("writes times since a beginning", () => {
  expect([0, 65, 7210].map(formatElapsed)).toEqual(["0:00", "1:05", "2:00:10"]);
});

it("names the day only where there are several, in the viewer's zone", () => {
  // Tests run in Asia/Kolkata, 5:30 ahead of UTC.
  expect(clockOf([seconds(0), seconds(1)])(seconds(1))).toBe("14:31:00");
  expect(clockOf([seconds(0), seconds(0) + 86_400])(seconds(1))).toBe("03-01 14:31");
});
