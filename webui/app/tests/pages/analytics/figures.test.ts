import { describe, expect, it } from "vitest";
import {
  COST,
  degree,
  LATENCY,
  differenceOf,
  NOTIFICATION,
  ORDER,
  percent,
  toneOf,
  verdictOf,
} from "../../../src/pages/analytics/figures";
import { SUMMARY } from "./sample";

const line = (key: string) =>
  [ORDER, NOTIFICATION, LATENCY, COST].flatMap(({ lines }) => lines).find((each) => each.key === key)!;

describe("an ordering degree", () => {
  it("is 1 only where it is", () => {
    expect(degree(1)).toBe("1");
    expect(degree(0.99999999)).toBe("0.999999");
    expect(degree(0.97125)).toBe("0.97125");
    expect(degree(0.9)).toBe("0.90");
    expect(degree(0.00000012)).toBe("0.00000012");
    expect(degree(0)).toBe("0");
    expect(degree(null)).toBe("–");
  });
});

describe("a percentage", () => {
  it("is neither 0 nor 100 by rounding", () => {
    expect(percent(100)).toBe("100 %");
    expect(percent(99.9999)).toBe("99.99 %");
    expect(percent(0.0001)).toBe("< 0.01 %");
    expect(percent(0)).toBe("0 %");
    expect(percent(null)).toBe("–");
  });
});

describe("the verdict", () => {
  it("sets what the broker did beside what was delivered", () => {
    const { tone, text } = verdictOf(SUMMARY);
    expect(tone).toBe("ok");
    expect(text).toBe(
      "All subscribers saw one order. The broker alone would have shown 381 pairs of events in opposite orders (ordering degree 0.9712).",
    );
  });

  it("says that the order was broken, with every digit", () => {
    const { tone, text } = verdictOf({ ...SUMMARY, tno_violations_delivered: "9007199254740993" });
    expect(tone).toBe("bad");
    expect(text).toContain("9,007,199,254,740,993 pairs of events");
    expect(verdictOf({ ...SUMMARY, tno_violations_delivered: 1 }).text).toContain("about one pair of events");
  });

  it("claims nothing where nobody has events in common", () => {
    const nobody = { ...SUMMARY, ordering_degree_delivered: null, tno_violations_delivered: 0 };
    expect(verdictOf(nobody).tone).toBe("info");
    expect(verdictOf(nobody).text).not.toContain("one order");
  });

  it("says so where the broker did as well", () => {
    expect(verdictOf({ ...SUMMARY, tno_violations_raw: 0, ordering_degree_raw: 1 }).text).toContain(
      "The broker alone brought the events in one order, too.",
    );
  });
});

describe("a difference", () => {
  it("knows which way is better", () => {
    expect(differenceOf(line("ordering_degree"), 0.9, 1)).toEqual({ text: "+0.10", tone: "ok" });
    expect(differenceOf(line("latency_ms_p99"), 10, 12.5)).toEqual({ text: "+2.5 ms", tone: "bad" });
    expect(differenceOf(line("latency_ms_p99"), 12.5, 10)).toEqual({ text: "−2.5 ms", tone: "ok" });
  });

  it("keeps all digits of whole numbers, and says when there is none", () => {
    const violations = line("tno_violations");
    expect(differenceOf(violations, 9007199254740993n, 2n).text).toBe("−9,007,199,254,740,991");
    expect(differenceOf(violations, 5n, 5n)).toEqual({ text: "same", tone: undefined });
    expect(differenceOf(violations, null, 5n).text).toBe("–");
  });
});

describe("the tone of a figure", () => {
  it("is bad where an order should be perfect and is not", () => {
    expect(toneOf(line("tno_violations"), 0n)).toBe("ok");
    expect(toneOf(line("tno_violations"), 1n)).toBe("bad");
    expect(toneOf(line("ordering_degree"), 0.9999999)).toBe("bad");
    expect(toneOf(line("ordering_degree"), null)).toBeUndefined();
    expect(toneOf(line("bytes_per_event"), 30)).toBeUndefined();
  });
});
