import {
  closestCenter,
  DndContext,
  DragOverlay,
  KeyboardSensor,
  PointerSensor,
  pointerWithin,
  useDroppable,
  useSensor,
  useSensors,
  type Announcements,
  type CollisionDetection,
  type DragEndEvent,
  type DragOverEvent,
} from "@dnd-kit/core";
import { SortableContext, sortableKeyboardCoordinates, verticalListSortingStrategy } from "@dnd-kit/sortable";
import { useState } from "react";
import type { OrderTopic } from "../../api/types";
import { Button, Card, toast, topicText } from "../../components";
import { formatCount, formatRate } from "../../lib/numbers";
import { applyEdit, editTo, placeOf, ranksOf, type Arrangement, type Edit } from "../../lib/order";
import { MoveDialog } from "./MoveDialog";
import { TopicRow, TopicRowView } from "./TopicRow";
import type { OrderDraft } from "./useOrderDraft";

/** Rows of a stage that are shown at first; dragging stays quick also with thousands of topics. */
const SHOWN = 100;

interface Props {
  order: OrderDraft;
  moved: ReadonlySet<string>;
  filter: string;
}

/** The stages one below the other, the highest first, each with its topics in their order. */
export function StageLists({ order, moved, filter }: Props) {
  const { draft, topics } = order;
  const [dragged, setDragged] = useState<string | null>(null);
  const [over, setOver] = useState<Arrangement | null>(null); // while something is dragged
  const [moving, setMoving] = useState<string | null>(null);
  const sensors = useSensors(
    useSensor(PointerSensor, { activationConstraint: { distance: 4 } }),
    useSensor(KeyboardSensor, { coordinateGetter: sortableKeyboardCoordinates }),
  );
  const shown = over ?? draft;
  const ranks = ranksOf(shown);
  const name = (id: unknown): string => (topics.has(String(id)) ? topicText(topics.get(String(id))!) : `stage ${id}`);

  const target = ({ active, over: at }: DragOverEvent | DragEndEvent): Edit | null => {
    if (!at || at.id === active.id) return null;
    const id = String(active.id);
    const stage = stageOfId(String(at.id));
    if (stage !== null) return { topic: id, stage, before: null };
    const [from, to] = [placeOf(shown, id), placeOf(shown, String(at.id))];
    return from && to ? editTo(shown, id, to.stage, to.index) : null;
  };
  const move = (event: DragOverEvent): void => {
    const edit = target(event);
    // Within a stage the list shows by itself where the topic would go.
    if (edit && edit.stage !== placeOf(shown, edit.topic)?.stage) setOver(applyEdit(shown, edit));
  };
  const drop = (event: DragEndEvent): void => {
    const id = String(event.active.id);
    const edit = target(event);
    const result = edit ? applyEdit(shown, edit) : shown;
    const place = placeOf(result, id);
    stop();
    if (place && event.over) commit(editTo(result, id, place.stage, place.index));
  };
  const stop = (): void => {
    setDragged(null);
    setOver(null);
  };
  const commit = (edit: Edit): void => {
    const [topic, from] = [topics.get(edit.topic), placeOf(draft, edit.topic)];
    if (topic?.pinned && from && from.stage !== edit.stage) {
      toast.bad(`${topicText(topic)} is pinned to stage ${from.stage}. Unpin it to move it to another one.`);
    } else if (applyEdit(draft, edit) !== draft) order.add(edit);
  };

  return (
    <DndContext
      sensors={sensors}
      collisionDetection={underPointerFirst}
      accessibility={{ announcements: announce(name), screenReaderInstructions: INSTRUCTIONS }}
      onDragStart={({ active }) => setDragged(String(active.id))}
      onDragOver={move}
      onDragEnd={drop}
      onDragCancel={stop}
    >
      {shown.map((ids, stage) => (
        <StageList
          key={stage}
          stage={stage}
          count={ids.length}
          rate={ids.reduce((sum, id) => sum + (topics.get(id)?.rate ?? 0), 0)}
          ids={ids.filter((id) => id === dragged || matches(topics.get(id), filter))}
          row={(id) => (
            <TopicRow
              key={id}
              topic={topics.get(id)!}
              rank={ranks.get(id)!}
              isMoved={moved.has(id)}
              onMove={() => setMoving(id)}
            />
          )}
        />
      ))}
      <DragOverlay>
        {dragged && topics.has(dragged) && (
          <TopicRowView topic={topics.get(dragged)!} rank={ranks.get(dragged)!} isMoved isLifted />
        )}
      </DragOverlay>
      {moving && topics.has(moving) && (
        <MoveDialog topic={topics.get(moving)!} order={draft} onClose={() => setMoving(null)} onMove={commit} />
      )}
    </DndContext>
  );
}

interface StageListProps {
  stage: number;
  count: number;
  rate: number;
  ids: readonly string[];
  row: (id: string) => React.ReactNode;
}

function StageList({ stage, count, rate, ids, row }: StageListProps) {
  const [limit, setLimit] = useState(SHOWN);
  const { setNodeRef, isOver } = useDroppable({ id: idOfStage(stage) });
  const shown = ids.slice(0, limit);
  return (
    <Card
      title={`Stage ${stage}${stage === 0 ? " (top)" : ""}`}
      hint={`${formatCount(count)} ${count === 1 ? "topic" : "topics"}, ${formatRate(rate)} timestamps per second`}
      flush
    >
      <SortableContext items={[...shown]} strategy={verticalListSortingStrategy}>
        <ol ref={setNodeRef} className={isOver ? "stage-list stage-over" : "stage-list"}>
          {shown.map(row)}
          {shown.length === 0 && (
            <li className="stage-empty muted small">
              {count === 0 ? "No topics. Drop one here." : "No topic with this text."}
            </li>
          )}
        </ol>
      </SortableContext>
      {ids.length > limit && (
        <div className="stage-more">
          <Button size="small" onClick={() => setLimit(limit + SHOWN)}>
            Show {formatCount(Math.min(SHOWN, ids.length - limit))} more of {formatCount(ids.length)}
          </Button>
        </div>
      )}
    </Card>
  );
}

const idOfStage = (stage: number): string => `stage ${stage}`;

function stageOfId(id: string): number | null {
  const match = /^stage (\d+)$/.exec(id);
  return match ? Number(match[1]) : null;
}

function matches(topic: OrderTopic | undefined, filter: string): boolean {
  return topic !== undefined && topicText(topic).toLocaleLowerCase().includes(filter.trim().toLocaleLowerCase());
}

/** Rows under the pointer win over the stage around them; by keyboard the nearest row. */
const underPointerFirst: CollisionDetection = (args) => {
  const under = pointerWithin(args);
  const rows = under.filter(({ id }) => stageOfId(String(id)) === null);
  return rows.length > 0 ? rows : under.length > 0 ? under : closestCenter(args);
};

const INSTRUCTIONS = {
  draggable:
    "To move the topic press space or enter, then the arrow keys, over the end of a stage too. Space or enter drops it, escape leaves it where it was.",
};

function announce(name: (id: unknown) => string): Announcements {
  return {
    onDragStart: ({ active }) => `${name(active.id)} lifted.`,
    onDragOver: ({ active, over }) => (over ? `${name(active.id)} is over ${name(over.id)}.` : undefined),
    onDragEnd: ({ active, over }) =>
      over ? `${name(active.id)} dropped at ${name(over.id)}.` : `${name(active.id)} dropped.`,
    onDragCancel: ({ active }) => `${name(active.id)} stays where it was.`,
  };
}
