/** What an import of definitions changes, in words. */
import { formatCount } from "../../lib/numbers";

/** A topic by what it is called everywhere. */
export interface TopicAddress {
  space: string;
  name: string;
}

export interface ImportPlan {
  dry_run: boolean;
  creates: TopicAddress[];
  reorders: boolean;
  /** Topics that change their stage. */
  moves: number;
  pins: TopicAddress[];
  lets_go: TopicAddress[];
  /** Rules of event logs that are new or have other bounds. */
  logs: number;
  /** Schedules of analyses that are new or other ones. */
  schedules: number;
}

export interface Change {
  what: string;
  topics?: readonly TopicAddress[];
}

/** One entry for each kind of change; none if everything is so already. */
export function changesOf(plan: ImportPlan): Change[] {
  const changes: Change[] = [];
  const add = (count: number, one: string, many: string, topics?: readonly TopicAddress[]): void => {
    if (count > 0) {
      changes.push({ what: count === 1 ? `1 ${one}` : `${formatCount(count)} ${many}`, ...(topics ? { topics } : {}) });
    }
  };
  add(plan.creates.length, "topic is created", "topics are created", plan.creates);
  if (plan.reorders) changes.push({ what: "The topic order changes" });
  add(plan.moves, "topic moves to another stage", "topics move to other stages");
  add(plan.pins.length, "topic is pinned", "topics are pinned", plan.pins);
  add(plan.lets_go.length, "topic is pinned no longer", "topics are pinned no longer", plan.lets_go);
  add(plan.logs, "rule of event logs is new or has other bounds", "rules of event logs are new or have other bounds");
  add(plan.schedules, "schedule of analyses is new or another one", "schedules of analyses are new or other ones");
  return changes;
}
