import { useSortable } from "@dnd-kit/sortable";
import { CSS } from "@dnd-kit/utilities";
import type { CSSProperties, HTMLAttributes, Ref } from "react";
import type { OrderTopic } from "../../api/types";
import { Badge, Button, Icon, TopicName, topicText } from "../../components";
import { formatRate } from "../../lib/numbers";

interface RowProps {
  topic: OrderTopic;
  rank: number;
  isMoved: boolean;
  onMove?: () => void;
}

/** A topic in the order that can be dragged. */
export function TopicRow(props: RowProps) {
  const { attributes, listeners, setNodeRef, setActivatorNodeRef, transform, transition, isDragging } = useSortable({
    id: props.topic.id,
  });
  return (
    <TopicRowView
      {...props}
      rowRef={setNodeRef}
      style={{ transform: CSS.Translate.toString(transform), ...(transition ? { transition } : {}) }}
      isGhost={isDragging}
      handleRef={setActivatorNodeRef}
      handle={{ ...attributes, ...listeners }}
    />
  );
}

interface ViewProps extends RowProps {
  rowRef?: Ref<HTMLLIElement>;
  style?: CSSProperties;
  /** Where it was, while it is dragged. */
  isGhost?: boolean;
  /** What follows the pointer. */
  isLifted?: boolean;
  handleRef?: Ref<HTMLButtonElement>;
  handle?: HTMLAttributes<HTMLButtonElement>;
}

export function TopicRowView(props: ViewProps) {
  const { topic, rank, isMoved, onMove, rowRef, style, isGhost, isLifted, handleRef, handle } = props;
  const classes = ["order-row", isGhost && "order-ghost", isLifted && "order-lifted", isMoved && "order-moved"];
  return (
    <li ref={rowRef} style={style} className={classes.filter(Boolean).join(" ")} data-topic={topic.id}>
      <button
        type="button"
        className="order-handle"
        ref={handleRef}
        {...handle}
        aria-label={`Move ${topicText(topic)}, rank ${rank}`}
      >
        <Icon name="grip" />
      </button>
      <span className="order-rank num">{rank}</span>
      <span className="order-name">
        <TopicName topic={topic} link={!isLifted} />
      </span>
      {topic.pinned && <Badge icon="pin">pinned</Badge>}
      {isMoved && <Badge tone="accent">moved</Badge>}
      <span className="order-rate num muted">{formatRate(topic.rate)} /s</span>
      <Button variant="ghost" size="small" onClick={onMove} aria-label={`Move ${topicText(topic)} to …`}>
        Move…
      </Button>
    </li>
  );
}
