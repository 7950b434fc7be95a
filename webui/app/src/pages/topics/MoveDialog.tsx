import { useState } from "react";
import type { OrderTopic } from "../../api/types";
import { Field, FormDialog, Select, TextInput, topicText } from "../../components";
import { editTo, placeOf, type Arrangement, type Edit } from "../../lib/order";

interface Props {
  topic: OrderTopic;
  order: Arrangement;
  onClose: () => void;
  onMove: (edit: Edit) => void;
}

/** The way to move a topic far, and without dragging. */
export function MoveDialog({ topic, order, onClose, onMove }: Props) {
  const place = placeOf(order, topic.id);
  const [stage, setStage] = useState(place?.stage ?? 0);
  const [position, setPosition] = useState(String((place?.index ?? 0) + 1));
  const others = order[stage]!.filter((id) => id !== topic.id).length;
  const index = Number(position) - 1;
  const isValid = Number.isInteger(index) && index >= 0 && index <= others;
  const move = async (): Promise<void> => onMove(editTo(order, topic.id, stage, index));
  return (
    <FormDialog title={`Move ${topicText(topic)}`} submit="Move" disabled={!isValid} onClose={onClose} onSubmit={move}>
      <div className="form-row">
        <Field label="Stage" hint={topic.pinned ? "It is pinned; unpin it to change its stage." : "0 is the top."}>
          <Select value={stage} disabled={topic.pinned} onChange={(event) => setStage(Number(event.target.value))}>
            {order.map((_, each) => (
              <option key={each} value={each}>
                Stage {each}
              </option>
            ))}
          </Select>
        </Field>
        <Field
          label="Position on it"
          hint={`1 to ${others + 1}`}
          error={isValid ? null : `A number from 1 to ${others + 1}.`}
        >
          <TextInput inputMode="numeric" value={position} onChange={(event) => setPosition(event.target.value)} />
        </Field>
      </div>
      <p className="muted small">Nothing changes in the system until you apply the order.</p>
    </FormDialog>
  );
}
