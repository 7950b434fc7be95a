/** An event's life as a line in time: how long after the one before each step came. */
import type { EventDetail } from "../../api/types";

export type Step = EventDetail["life"][number];

/** A step with the milliseconds since the step before it; null for the first, and where a clock went backwards. */
export interface Placed {
  step: Step;
  sinceMs: number | null;
}

/** Steps in the order of their times, or in which they were told where a time is not known. */
export function placed(life: readonly Step[]): Placed[] {
  const isTimed = life.every((each) => Number.isFinite(timeOf(each)));
  const sorted = isTimed ? [...life].sort((one, other) => timeOf(one) - timeOf(other)) : life;
  return sorted.map((step, at) => {
    const before = sorted[at - 1];
    const since = before === undefined ? NaN : timeOf(step) - timeOf(before);
    return { step, sinceMs: Number.isFinite(since) && since >= 0 ? since : null };
  });
}

/** NaN where nobody knows when it was. */
function timeOf(step: Step): number {
  return Date.parse(step.at ?? "");
}

/** What a state of a number means, in the words of the rules (R16, R17). */
export const STATE_MEANING: Record<string, string> = {
  pending: "Its publisher has not yet said that the broker took it. Subscribers wait for it.",
  confirmed: "The broker took it.",
  void: "Its publisher never handed it to the broker. Subscribers skip it without a report.",
  abandoned: "Its publisher is gone; it may or may not have been delivered. Subscribers skip it and report a gap.",
  lost: "The broker took it, but it never arrived, and no event log has it. Subscribers report a gap.",
  expired: "It is so old that the workers do not know it one by one any more.",
  unknown: "The workers do not know what became of it.",
};
