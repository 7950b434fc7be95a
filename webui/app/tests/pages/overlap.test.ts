import { describe, expect, it } from "vitest";
import { circle, edges, heat, hottestOf, shortened } from "../../src/pages/subscriptions/overlap";

const MATRIX = [
  [9, 2, 0],
  [2, 4, 5],
  [0, 5, 7],
];

describe("heat", () => {
  it("is in proportion to the hottest cell, and 0 only where nothing is shared", () => {
    expect([0, 1, 20, 21, 100].map((shared) => heat(shared, 100))).toEqual([0, 1, 1, 2, 5]);
    expect(heat(3, 0)).toBe(0);
  });

  it("leaves out what a client shares with itself", () => {
    expect(hottestOf(MATRIX)).toBe(5);
    expect(hottestOf([[9]])).toBe(0);
  });
});

describe("the graph", () => {
  it("has one edge a pair, the heaviest last", () => {
    expect(edges(MATRIX)).toEqual([
      { a: 0, b: 1, shared: 2 },
      { a: 1, b: 2, shared: 5 },
    ]);
  });

  it("begins at the top and goes clockwise", () => {
    const [top, right, bottom, left] = circle(4, 10);
    expect([top?.anchor, right?.anchor, bottom?.anchor, left?.anchor]).toEqual(["middle", "start", "middle", "end"]);
    expect(top?.y).toBeCloseTo(-10);
    expect(right?.x).toBeCloseTo(10);
  });

  it("shortens names in their middle, never through a character of two units", () => {
    expect(shortened("desk-1", 8)).toBe("desk-1");
    expect(shortened("warehouse-terminal-17", 9)).toBe("ware…l-17");
    expect(shortened("😀😀😀😀😀", 3)).toBe("😀…😀");
  });
});
