import { describe, expect, it } from "vitest";
import type { Worker } from "../../src/api/types";
import { followersOf, mostLag, nameOf, processOf, targetsOf, topDown } from "../../src/pages/workers/pipeline";

const worker = (owner: string, state: string, stages: number[], lag: Worker["lag"]): Worker => ({
  owner,
  name: owner,
  address: null,
  state,
  stages,
  pins: [],
  drained: false,
  lag,
});
const WORKERS = [
  worker("a", "active", [0, 1], {}),
  worker("b", "standby", [], { "0": "9007199254740993", "1": 0 }),
  worker("c", "suspect", [], { "0": 2 }),
  worker("d", "dead", [], { "0": 0 }),
  worker("e", "active", [2], {}),
];

describe("the pipeline", () => {
  it("has the top stage first", () => {
    expect(topDown([2, 0, 1].map((stage) => ({ stage }))).map((each) => each.stage)).toEqual([0, 1, 2]);
  });

  it("names those that follow a stage, the closest first, and no dead ones", () => {
    expect(followersOf({ stage: 0, owner: "a" }, WORKERS).map((each) => [each.worker.owner, each.lag])).toEqual([
      ["c", 2],
      ["b", "9007199254740993"],
    ]);
  });

  it("moves a stage only to workers that live, and not to its owner", () => {
    const drained = { ...worker("f", "standby", [], {}), drained: true };
    expect(targetsOf({ owner: "a" }, [...WORKERS, drained]).map((each) => each.owner)).toEqual(["b", "e"]);
  });

  it("tells a worker that follows nothing from one that is not behind", () => {
    expect(WORKERS.map(mostLag)).toEqual([null, "9007199254740993", 2, 0, null]);
  });

  it("reads name, host and process out of an owner name, and leaves what it does not know", () => {
    const owner = "press/1/9f0c3a5e7b21/4711-882910/5b0d6c7e8f901234";
    expect([nameOf(owner), processOf(owner)]).toEqual(["press/1", "9f0c3a5e7b21, process 4711"]);
    expect([nameOf("odd"), processOf("odd")]).toEqual(["odd", "odd"]);
  });
});
