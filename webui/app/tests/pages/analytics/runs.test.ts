import { describe, expect, it } from "vitest";
import { compared, pairOf } from "../../../src/pages/analytics/compare";
import { witnessText } from "../../../src/pages/analytics/figures";
import { choose, dueText, progressText, shortSource } from "../../../src/pages/analytics/runs";
import { run, SUMMARY } from "./sample";

describe("how a run goes", () => {
  it("is told in words", () => {
    const open = run("1", { outcome: "running", ended_at: null, progress: { step: 3, of: 9, what: "pairs" } });
    expect(progressText(open)).toBe("step 3 of 9: pairs");
    expect(progressText({ ...open, progress: null })).toBe("starting Spark");
    expect(progressText({ ...open, outcome: "queued" })).toBe("waits for its turn");
    expect(progressText({ ...open, cancelled_by: "bob" })).toBe("being cancelled by bob");
  });
});

it("a third run that is chosen takes the place of the first", () => {
  expect(choose([], "a")).toEqual(["a"]);
  expect(choose(["a"], "b")).toEqual(["a", "b"]);
  expect(choose(["a", "b"], "c")).toEqual(["b", "c"]);
  expect(choose(["a", "b"], "a")).toEqual(["b"]);
});

describe("the two runs of a comparison", () => {
  const done = [run("new", { source: "/x" }), run("other", { source: "/y" }), run("old", { source: "/x" })];
  const ids = (a: string | null, b: string | null) => {
    const pair = pairOf(done, a, b);
    return [pair.a?.id, pair.b?.id];
  };

  it("are those asked for, else the newest ones of the same traces", () => {
    expect(ids("old", "other")).toEqual(["old", "other"]);
    expect(ids(null, null)).toEqual(["old", "new"]);
    expect(ids(null, "old")).toEqual(["new", "old"]);
    expect(ids("other", null)).toEqual(["other", "new"]);
    expect(ids("gone", "other")).toEqual(["new", "other"]);
  });

  it("may be missing", () => {
    expect(pairOf([], null, null)).toEqual({ a: undefined, b: undefined });
    expect(pairOf(done.slice(0, 1), null, null)).toEqual({ a: undefined, b: done[0] });
  });
});

it("compares raw and delivered figures, each by itself", () => {
  const lines = compared(SUMMARY, { ...SUMMARY, tno_violations_raw: 400, tno_violations_delivered: 2 })[0]!.lines;
  const of = (key: string) => lines.find((each) => each.key === key)!;
  expect([of("tno_violations_raw").side, of("tno_violations_raw").difference.text]).toEqual(["broker alone", "+19"]);
  expect(of("tno_violations").difference).toEqual({ text: "+2", tone: "bad" });
});

it("names the two events of a violation with all digits", () => {
  const pair = {
    run: "r",
    a: "desk-1",
    b: "desk-2",
    length: 5,
    length_raw: 5,
    ordering_degree_raw: 0.9,
    ordering_degree_delivered: 0.9,
    tno_violations_raw: 1,
    tno_violations_delivered: 1,
    witness: { first: { topic: "mqtt:a", number: "9007199254740993" }, second: { topic: "mqtt:b", number: 7 } },
  };
  expect(witnessText(pair)).toBe(
    "desk-1 had mqtt:a number 9,007,199,254,740,993 before mqtt:b number 7, desk-2 had them the other way round.",
  );
});

it("shortens long paths from the left", () => {
  expect(shortSource("/var/lib/inorder/traces/")).toBe("…/inorder/traces");
  expect(shortSource("traces")).toBe("traces");
  expect(shortSource("s3://bucket/plant/traces")).toBe("…/plant/traces");
});

it("tells when a schedule is due in the viewer's zone and in UTC", () => {
  expect(dueText("2026-03-01T12:45:00Z")).toBe("2026-03-01 18:15 (12:45 UTC)");
  expect(dueText("2026-03-01T22:45:00Z")).toBe("2026-03-02 04:15 (2026-03-01 22:45 UTC)");
});
