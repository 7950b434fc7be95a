import { describe, expect, it } from "vitest";
import { applyEdit, applyEdits, editTo, isSameOrder, movedTopics, placeOf, ranksOf } from "../src/lib/order";

const ORDER = [
  ["a", "b", "c"],
  ["d", "e"],
];

describe("an edit", () => {
  it("moves up, down and to the end within a stage", () => {
    expect(applyEdit(ORDER, editTo(ORDER, "c", 0, 0))).toEqual([
      ["c", "a", "b"],
      ["d", "e"],
    ]);
    expect(applyEdit(ORDER, editTo(ORDER, "a", 0, 1))).toEqual([
      ["b", "a", "c"],
      ["d", "e"],
    ]);
    expect(applyEdit(ORDER, editTo(ORDER, "a", 0, 99))).toEqual([
      ["b", "c", "a"],
      ["d", "e"],
    ]);
  });

  it("moves to another stage", () => {
    expect(applyEdit(ORDER, editTo(ORDER, "e", 0, 1))).toEqual([["a", "e", "b", "c"], ["d"]]);
    expect(applyEdit([["a"], []], editTo([["a"], []], "a", 1, 0))).toEqual([[], ["a"]]);
  });

  it("never loses or repeats a topic", () => {
    for (const topic of ORDER.flat()) {
      for (const stage of [0, 1]) {
        for (const index of [0, 1, 2, 3]) {
          const result = applyEdit(ORDER, editTo(ORDER, topic, stage, index));
          expect(result.flat().sort()).toEqual(["a", "b", "c", "d", "e"]);
          expect(placeOf(result, topic)?.stage).toBe(stage);
        }
      }
    }
  });

  it("of a topic or stage that is gone changes nothing", () => {
    expect(applyEdit(ORDER, { topic: "x", stage: 0, before: null })).toBe(ORDER);
    expect(applyEdit(ORDER, { topic: "a", stage: 7, before: null })).toBe(ORDER);
  });
});

describe("when the order changed meanwhile", () => {
  const edits = [editTo(ORDER, "e", 0, 0), editTo(ORDER, "b", 1, 0)];

  it("the same edits are made on the new one", () => {
    const now = [
      ["c", "a", "b"],
      ["d", "n", "e"],
    ]; // somebody moved c, and n is new
    expect(applyEdits(now, edits)).toEqual([
      ["c", "e", "a"],
      ["b", "d", "n"],
    ]);
  });

  it("a neighbour that is gone means the stage's end", () => {
    expect(
      applyEdits(
        [
          ["b", "c"],
          ["d", "e"],
        ],
        edits,
      ),
    ).toEqual([
      ["c", "e"],
      ["b", "d"],
    ]);
  });

  it("a topic that is gone stays gone", () => {
    expect(applyEdits([["a", "b"], ["d"]], edits)).toEqual([["a"], ["b", "d"]]);
  });
});

it("ranks count through all stages from 1", () => {
  expect([...ranksOf(ORDER)]).toEqual([
    ["a", 1],
    ["b", 2],
    ["c", 3],
    ["d", 4],
    ["e", 5],
  ]);
});

it("there and back is no change", () => {
  const there = editTo(ORDER, "a", 1, 0);
  const back = editTo(applyEdit(ORDER, there), "a", 0, 0);
  expect(isSameOrder(applyEdits(ORDER, [there, back]), ORDER)).toBe(true);
  expect([...movedTopics(ORDER, [there, back])]).toEqual([]);
  expect([...movedTopics(ORDER, [there])]).toEqual(["a"]);
});
