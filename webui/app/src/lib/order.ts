/**
 * What an operator does to the topic order before it is applied: a list of edits on top of the order as it is. When
 * that changes meanwhile, the edits are made again on the new one.
 */

/** Topic ids of each stage, the highest first. */
export type Arrangement = readonly (readonly string[])[];

/** Puts a topic on a stage, before another one; null: at the stage's end. */
export interface Edit {
  topic: string;
  stage: number;
  before: string | null;
}

export function placeOf(order: Arrangement, topic: string): { stage: number; index: number } | null {
  for (const [stage, topics] of order.entries()) {
    const index = topics.indexOf(topic);
    if (index >= 0) return { stage, index };
  }
  return null;
}

/** Ranks through all stages, 1 the highest. */
export function ranksOf(order: Arrangement): Map<string, number> {
  return new Map(order.flat().map((topic, at) => [topic, at + 1]));
}

/** The order after an edit; of topics and stages that are not there (any more) nothing changes. */
export function applyEdit(order: Arrangement, { topic, stage, before }: Edit): Arrangement {
  if (!placeOf(order, topic) || stage < 0 || stage >= order.length || before === topic) return order;
  return order.map((topics, at) => {
    const others = topics.filter((each) => each !== topic);
    if (at !== stage) return others.length === topics.length ? topics : others;
    const index = before === null ? -1 : others.indexOf(before);
    return index < 0 ? [...others, topic] : [...others.slice(0, index), topic, ...others.slice(index)];
  });
}

export function applyEdits(order: Arrangement, edits: readonly Edit[]): Arrangement {
  return edits.reduce(applyEdit, order);
}

export function isSameOrder(a: Arrangement, b: Arrangement): boolean {
  return (
    a.length === b.length &&
    a.every((topics, stage) => topics.length === b[stage]!.length && topics.every((id, at) => id === b[stage]![at]))
  );
}

/** The edit that brings a topic to a place of its stage, counted without itself; past the end is the end. */
export function editTo(order: Arrangement, topic: string, stage: number, index: number): Edit {
  const others = (order[stage] ?? []).filter((each) => each !== topic);
  return { topic, stage, before: others[Math.max(0, index)] ?? null };
}

/** The edit for "one up" or "one down"; over a stage's border into the next one. Null where there is no further. */
export function stepEdit(order: Arrangement, topic: string, by: -1 | 1): Edit | null {
  const place = placeOf(order, topic);
  if (!place) return null;
  const { stage, index } = place;
  const next = index + by;
  if (next >= 0 && next < order[stage]!.length) return editTo(order, topic, stage, next);
  const neighbour = stage + by;
  if (neighbour < 0 || neighbour >= order.length) return null;
  return editTo(order, topic, neighbour, by < 0 ? order[neighbour]!.length : 0);
}

/** Which topics the edits really moved: on another stage, or before another neighbour than in the order as it is. */
export function movedTopics(now: Arrangement, edits: readonly Edit[]): Set<string> {
  const draft = applyEdits(now, edits);
  const moved = new Set<string>();
  for (const { topic } of edits) {
    const [from, to] = [placeOf(now, topic), placeOf(draft, topic)];
    if (from && to && (from.stage !== to.stage || from.index !== to.index)) moved.add(topic);
  }
  return moved;
}
