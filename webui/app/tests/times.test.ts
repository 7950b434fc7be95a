import { expect, it } from "vitest";
import { formatAgo, formatTime, formatTimeShort, formatUtc } from "../src/lib/times";

// vite.config.ts sets the zone of the tests: Asia/Kolkata, five and a half hours ahead.
const AT = "2026-03-04T20:06:07.123Z";

it("times are in the browser's zone, over midnight too", () => {
  expect(formatTime(AT)).toBe("2026-03-05 01:36:07");
  expect(formatTime(AT, { ms: true })).toBe("2026-03-05 01:36:07.123");
});

it("UTC is there on demand", () => {
  expect(formatUtc(AT)).toBe("2026-03-04 20:06:07.123 UTC");
});

it("today's times need no date", () => {
  expect(formatTimeShort(AT, new Date("2026-03-04T22:00:00Z"))).toBe("01:36:07");
  expect(formatTimeShort(AT, new Date("2026-03-06T22:00:00Z"))).toBe("2026-03-05 01:36:07");
});

it("distances are told in one unit", () => {
  const now = Date.parse(AT);
  expect(formatAgo("2026-03-04T20:06:06.500Z", now)).toBe("now");
  expect(formatAgo("2026-03-04T20:05:55.000Z", now)).toBe("12 s ago");
  expect(formatAgo("2026-03-02T20:00:00.000Z", now)).toBe("2 d ago");
  expect(formatAgo("2026-03-04T23:07:00.000Z", now)).toBe("in 3 h");
});

it("what is no time is a dash", () => {
  for (const nothing of [null, undefined, "", "yesterday"]) expect(formatTime(nothing)).toBe("–");
});
