import { useState } from "react";
import { Banner, Button, Card, EmptyState, Loaded, TextInput } from "../../components";
import { formatCount } from "../../lib/numbers";
import { movedTopics } from "../../lib/order";
import { ApplyDialog } from "./ApplyDialog";
import { AutomaticMode } from "./AutomaticMode";
import { StageLists } from "./StageLists";
import { useOrderDraft, type OrderDraft } from "./useOrderDraft";

/** The topic order: drag, preview, apply. */
export function OrderEditor() {
  const order = useOrderDraft();
  return (
    <Loaded resource={order.resource} lines={10}>
      {(data) =>
        order.topics.size === 0 ? (
          <Card>
            <EmptyState title="No topics to order yet" icon="topics">
              A topic is created by the first event that is published to it with order, or by hand with “Create topic”.
            </EmptyState>
          </Card>
        ) : (
          <>
            {data.automatic && <AutomaticMode automatic={data.automatic} resource={order.resource} />}
            <Editor order={order} />
          </>
        )
      }
    </Loaded>
  );
}

function Editor({ order }: { order: OrderDraft }) {
  const [filter, setFilter] = useState("");
  const [isApplying, setApplying] = useState(false);
  const moved = movedTopics(order.now, order.edits);
  return (
    <>
      {order.isRebased && (
        <Banner tone="info">
          The order changed while you were at it (order epoch {formatCount(order.resource.data?.order_epoch)}). Your
          moves stand on the new one; look at them before you apply.
        </Banner>
      )}
      <div className="order-bar">
        <TextInput
          type="search"
          className="order-filter"
          aria-label="Find a topic in the order"
          placeholder="Find a topic"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
        <p className="muted small" role="status">
          {order.isChanged
            ? `${formatCount(moved.size)} ${moved.size === 1 ? "topic" : "topics"} moved, not applied yet`
            : "Drag a topic by its handle, or focus the handle and press space, then the arrow keys."}
        </p>
        <span className="table-spacer" />
        {order.edits.length > 0 && (
          <>
            <Button onClick={order.discard}>Discard</Button>
            <Button onClick={order.undo}>Undo</Button>
          </>
        )}
        <Button variant="primary" needs="operator" disabled={!order.isChanged} onClick={() => setApplying(true)}>
          Preview and apply
        </Button>
      </div>
      <StageLists order={order} moved={moved} filter={filter} />
      {isApplying && <ApplyDialog order={order} onClose={() => setApplying(false)} />}
    </>
  );
}
