import { useCallback, useEffect, useMemo, useState } from "react";
import { useResource, type Resource } from "../../api/hooks";
import type { OrderTopic, TopicOrder } from "../../api/types";
import { applyEdits, isSameOrder, type Arrangement, type Edit } from "../../lib/order";
import { useLive } from "../../live/store";

export interface OrderDraft {
  resource: Resource<TopicOrder>;
  /** The order as it is. */
  now: Arrangement;
  /** The order with what the operator did. */
  draft: Arrangement;
  topics: ReadonlyMap<string, OrderTopic>;
  edits: readonly Edit[];
  isChanged: boolean;
  /** The order epoch below the edits changed since the first of them. */
  isRebased: boolean;
  add: (edit: Edit) => void;
  undo: () => void;
  discard: () => void;
}

const NO_ORDER: Arrangement = [];

/** The order, the operator's edits on it, and both together; a new order epoch is read at once. */
export function useOrderDraft(): OrderDraft {
  const resource = useResource<TopicOrder>("/order", { everyMs: 10_000 });
  const [edits, setEdits] = useState<readonly Edit[]>([]);
  const [startedAt, setStartedAt] = useState<string | null>(null);
  const { data, reload } = resource;
  const liveEpoch = useLive((state) => state.orderEpoch);
  const isBehind = liveEpoch !== null && data !== null && liveEpoch !== data.order_epoch;
  useEffect(() => {
    if (isBehind) void reload();
  }, [isBehind, liveEpoch, reload]);

  const now = useMemo(() => data?.stages.map(({ topics }) => topics.map(({ id }) => id)) ?? NO_ORDER, [data]);
  const topics = useMemo(
    () => new Map(data?.stages.flatMap((stage) => stage.topics.map((topic) => [topic.id, topic] as const))),
    [data],
  );
  const draft = useMemo(() => applyEdits(now, edits), [now, edits]);
  const epoch = data?.order_epoch ?? null;

  const add = useCallback(
    (edit: Edit) => {
      setStartedAt((at) => at ?? epoch);
      setEdits((before) => [...before, edit]);
    },
    [epoch],
  );
  const discard = useCallback(() => {
    setEdits([]);
    setStartedAt(null);
  }, []);
  const undo = useCallback(() => {
    setEdits((before) => before.slice(0, -1));
    if (edits.length <= 1) setStartedAt(null);
  }, [edits.length]);

  return {
    resource,
    now,
    draft,
    topics,
    edits,
    isChanged: !isSameOrder(now, draft),
    isRebased: edits.length > 0 && startedAt !== null && startedAt !== epoch,
    add,
    undo,
    discard,
  };
}
