import { describe, expect, it } from "vitest";
import { placed } from "../../src/pages/events/life";

const step = (at: string | null, what: string) => ({ at, what, who: "", detail: "" });

describe("an event's life", () => {
  it("is in the order of its times, each step with its distance from the one before", () => {
    const life = [
      step("2026-01-05T09:00:00.250Z", "confirmed"),
      step("2026-01-05T09:00:00.000Z", "stamped"),
      step("2026-01-05T09:00:00.250Z", "stored"),
    ];
    expect(placed(life).map((each) => [each.step.what, each.sinceMs])).toEqual([
      ["stamped", null],
      ["confirmed", 250],
      ["stored", 0],
    ]);
  });

  it("says nothing of a distance that it cannot know", () => {
    const life = [step("2026-01-05T09:00:00.250Z", "stamped"), step(null, "released"), step("", "confirmed")];
    expect(placed(life).map((each) => [each.step.what, each.sinceMs])).toEqual([
      ["stamped", null],
      ["released", null],
      ["confirmed", null],
    ]);
  });
});
