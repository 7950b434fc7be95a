import { expect, it } from "vitest";
import { changesOf, type ImportPlan } from "../../src/pages/settings/importPlan";

const NOTHING: ImportPlan = {
  dry_run: true,
  creates: [],
  reorders: false,
  moves: 0,
  pins: [],
  lets_go: [],
  logs: 0,
  schedules: 0,
};
const TOPIC = { space: "mqtt", name: "orders" };

it("says each change, and none that is none", () => {
  expect(changesOf(NOTHING)).toEqual([]);
  expect(changesOf({ ...NOTHING, creates: [TOPIC], reorders: true, moves: 2, logs: 1, schedules: 3 })).toEqual([
    { what: "1 topic is created", topics: [TOPIC] },
    { what: "The topic order changes" },
    { what: "2 topics move to other stages" },
    { what: "1 rule of event logs is new or has other bounds" },
    { what: "3 schedules of analyses are new or other ones" },
  ]);
});
