import { describe, expect, it } from "vitest";
import { csvField, csvName, toCsv } from "../src/lib/csv";

describe("a text that a spreadsheet would run (B73)", () => {
  it.each(["=1+1", "+1+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1"])("%j gets an apostrophe", (text) => {
    expect(csvField(text).replace(/^"/, "")).toMatch(/^'/);
  });

  it("numbers are no formulas", () => {
    expect(csvField(-5)).toBe("-5");
    expect(csvField("-12.5")).toBe("-12.5");
    expect(csvField(18446744073709551615n)).toBe("18446744073709551615");
  });
});

it("quotes what holds commas, quotes or line ends", () => {
  expect(csvField('a "b", c')).toBe('"a ""b"", c"');
  expect(csvField("one\ntwo")).toBe('"one\ntwo"');
  expect(csvField("plain")).toBe("plain");
});

it("nothing is an empty field", () => {
  expect(csvField(null)).toBe("");
  expect(csvField(undefined)).toBe("");
  expect(csvField(false)).toBe("false");
});

it("a file begins with the mark that spreadsheets need and ends each line with CR LF", () => {
  expect(toCsv(["topic", "n"], [["a,b", 1n]])).toBe('\ufefftopic,n\r\n"a,b",1\r\n');
});

it("the file's name has its time and no colons", () => {
  expect(csvName("topics", new Date("2026-03-04T15:06:07.8Z"))).toBe("inorder-topics-2026-03-04T150607Z.csv");
});
