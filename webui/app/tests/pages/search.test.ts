import { describe, expect, it } from "vitest";
import { isIncarnation, isNumber, problemsOf, queryOf, searchOf } from "../../src/pages/events/search";

describe("numbers", () => {
  it("have 63 bits, exactly", () => {
    expect(isNumber("9223372036854775807")).toBe(true);
    expect(isNumber("9223372036854775808")).toBe(false);
    for (const wrong of ["0", "", "-1", "1.0", "1e3", "0x10", " 1", "NaN", "12345678901234567890123"]) {
      expect(isNumber(wrong), wrong).toBe(false);
    }
  });

  it("of incarnations have 64 bits and a sign", () => {
    expect(isIncarnation("-9223372036854775808")).toBe(true);
    expect(isIncarnation("-9223372036854775809")).toBe(false);
    expect(isIncarnation("0")).toBe(true);
    expect(isIncarnation("--1")).toBe(false);
  });
});

describe("a search", () => {
  it("stands in the address and comes back from it, whatever the client's name", () => {
    for (const search of [
      { by: "number", topic: "3", number: "9007199254740993" },
      { by: "id", client: "a/b&c=%😀", incarnation: "-8138429374523", counter: "7" },
    ] as const) {
      expect(searchOf(new URLSearchParams(queryOf(search)))).toEqual(search);
    }
  });

  it("is none where a part is missing", () => {
    for (const query of ["", "topic=3", "number=4", "client=x&counter=1", "topic=&number=4"]) {
      expect(searchOf(new URLSearchParams(query)), query).toBeNull();
    }
  });

  it("says of each field what is wrong with it", () => {
    expect(problemsOf({ by: "number", topic: "", number: "x" })).toEqual({
      topic: "Choose one of the topics.",
      number: "A whole number from 1.",
    });
    expect(problemsOf({ by: "id", client: "c", incarnation: "1", counter: "1" })).toEqual({});
  });
});
