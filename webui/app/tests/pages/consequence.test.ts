import { describe, expect, it } from "vitest";
import { consequenceOf, countOf, inWords } from "../../src/pages/gaps/consequence";

describe("a range of numbers", () => {
  it("is counted exactly, also beyond what a number of the browser holds", () => {
    expect(countOf({ first: "9007199254740992", last: "9007199254740993" })).toBe(2n);
    expect(countOf({ first: "7", last: "7" })).toBe(1n);
  });

  it("is said in words", () => {
    expect(inWords({ first: "7", last: "7" })).toBe("number 7");
    expect(inWords({ first: "7", last: "9" })).toBe("numbers 7 to 9");
  });
});

describe("a consequence", () => {
  it("names what is done, and warns where an event may vanish unseen", () => {
    const range = { first: "7", last: "9" };
    expect(consequenceOf("void", range).title).toBe("Release numbers 7 to 9 as void");
    expect((["void", "abandoned", "repair"] as const).map((each) => consequenceOf(each, range).isRisky)).toEqual([
      true,
      false,
      false,
    ]);
  });
});
