import { expect, it } from "vitest";
import { compareValues, filterRows, pageOf, sortRows } from "../src/lib/tables";

it("texts are ordered as people read them, what is none comes first", () => {
  expect(["a10", null, "A2", "b1"].sort(compareValues)).toEqual([null, "A2", "a10", "b1"]);
});

it("long numbers are ordered by all their digits", () => {
  const numbers = [9007199254740993n, 5n, 9007199254740992n];
  expect(sortRows(numbers, (each) => each, true)).toEqual([9007199254740993n, 9007199254740992n, 5n]);
});

it("equal rows keep their order, in both directions", () => {
  const rows = ["b1", "a1", "b2", "a2"];
  expect(sortRows(rows, (row) => row[0], false)).toEqual(["a1", "a2", "b1", "b2"]);
  expect(sortRows(rows, (row) => row[0], true)).toEqual(["b1", "b2", "a1", "a2"]);
});

it("every word must stand somewhere in the row", () => {
  const rows = [
    ["plant/line-1", 7],
    ["plant/line-2", 7],
    ["office", 7],
  ] as const;
  expect(filterRows(rows, " LINE  7 ", (row) => row)).toEqual([rows[0], rows[1]]);
  expect(filterRows(rows, "  ", (row) => row)).toBe(rows);
});

it("a page past the end is the last one", () => {
  expect(pageOf([1, 2, 3, 4, 5], 9, 2)).toEqual({ rows: [5], at: 2, pages: 3 });
  expect(pageOf([], 0, 2)).toEqual({ rows: [], at: 0, pages: 1 });
});
