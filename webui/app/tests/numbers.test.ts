import { describe, expect, it } from "vitest";
import {
  compareQuantity,
  formatBytes,
  formatCompact,
  formatCount,
  formatDecimal,
  formatMs,
  formatRate,
  formatSeconds,
  formatShare,
  toBigInt,
} from "../src/lib/numbers";

describe("64-bit numbers (B71)", () => {
  it("keep every digit", () => {
    expect(formatCount("18446744073709551615")).toBe("18,446,744,073,709,551,615");
    expect(formatCount("9007199254740993")).toBe("9,007,199,254,740,993");
    expect(toBigInt("9007199254740993")).toBe(9007199254740993n);
  });

  it("are ordered exactly", () => {
    expect(compareQuantity("9007199254740993", "9007199254740992")).toBe(1);
    expect(compareQuantity("999", "1000")).toBe(-1);
    expect(compareQuantity("7", 7)).toBe(0);
    expect(compareQuantity(null, "0")).toBe(-1);
  });

  it("that a JavaScript number cannot hold are not taken from one", () => {
    expect(toBigInt(2 ** 53)).toBeNull();
  });

  it("are digits and nothing else", () => {
    for (const text of ["", " 1", "1e3", "0x10", "1.5", "NaN", "1_000"]) expect(toBigInt(text)).toBeNull();
  });
});

it("what is not known is a dash, not a zero", () => {
  expect(formatCount(null)).toBe("–");
  expect(formatDecimal(NaN)).toBe("–");
  expect(formatMs(null)).toBe("–");
  expect(formatSeconds(undefined)).toBe("–");
  expect(formatShare("0", "0")).toBe("–");
});

it("shares never round to what is not so", () => {
  expect(formatShare("10000000", "10000000")).toBe("100 %");
  expect(formatShare("9999999", "10000000")).toBe("99.99 %");
  expect(formatShare("1", "100000")).toBe("< 0.01 %");
  expect(formatShare("0", "5")).toBe("0.00 %");
});

it("durations have two units at most", () => {
  expect(formatSeconds(0.4)).toBe("0.4 s");
  expect(formatSeconds(59.6)).toBe("60 s");
  expect(formatSeconds(200)).toBe("3 min 20 s");
  expect(formatSeconds(7500)).toBe("2 h 5 min");
  expect(formatSeconds(604_800)).toBe("7 d");
  expect(formatMs(0.42)).toBe("0.42 ms");
  expect(formatMs(1234)).toBe("1.23 s");
});

it("bytes and compact counts", () => {
  expect(formatBytes(812)).toBe("812 B");
  expect(formatBytes("268435456")).toBe("268 MB");
  expect(formatCompact("1234567")).toBe("1.2M");
});

it("rates line up: as many digits after the point for as large a number", () => {
  expect([0, 0.5, 4, 9.999, 12.34, 99.99, 1234.5].map(formatRate)).toEqual([
    "0",
    "0.50",
    "4.00",
    "10.0",
    "12.3",
    "100",
    "1,235",
  ]);
});
