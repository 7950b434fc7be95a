/** Stages as a pipeline: what enters at the bottom rides up the belt (R2). */
import type { Stage, Worker } from "../../api/types";
import { compareQuantity, type Quantity } from "../../lib/numbers";

export interface Follower {
  worker: Worker;
  /** Rows of the stage's journal that it has not read yet. */
  lag: Quantity;
}

/** From the top stage (0) to the bottom one, where timestamps enter. */
export function topDown<S extends Pick<Stage, "stage">>(stages: readonly S[]): S[] {
  return [...stages].sort((one, other) => one.stage - other.stage);
}

/** Workers that follow a stage and could take it over, the closest behind first. The dead do not follow. */
export function followersOf(stage: Pick<Stage, "stage" | "owner">, workers: readonly Worker[]): Follower[] {
  return workers
    .filter((each) => each.owner !== stage.owner && each.state !== "dead")
    .flatMap((worker) => {
      const lag = worker.lag[String(stage.stage)];
      return lag === undefined ? [] : [{ worker, lag }];
    })
    .sort((one, other) => compareQuantity(one.lag, other.lag));
}

/** Workers that a stage can be moved to: those that live and are not drained, but for its owner. */
export function targetsOf(stage: Pick<Stage, "owner">, workers: readonly Worker[]): Worker[] {
  const lives = ({ state, drained }: Worker): boolean => !drained && (state === "active" || state === "standby");
  return workers.filter((each) => each.owner !== stage.owner && lives(each));
}

/** The most rows that a worker is behind in any stage that it follows; null for one that follows none. */
export function mostLag(worker: Pick<Worker, "lag">): Quantity | null {
  return Object.values(worker.lag).sort(compareQuantity).at(-1) ?? null;
}

/** Where a worker's process is, out of its owner name: "host-a, process 4711"; the name itself where it is another. */
export function processOf(owner: string): string {
  const found = /^.+\/([^/]+)\/(\d+)(?:-\d+)?\/[0-9a-f]+$/.exec(owner);
  return found ? `${found[1]}, process ${found[2]}` : owner;
}

/** A worker's name, which its owner name begins with. */
export function nameOf(owner: string): string {
  return /^(.+)\/[^/]+\/[^/]+\/[^/]+$/.exec(owner)?.[1] ?? owner;
}
