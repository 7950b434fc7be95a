import { useState } from "react";
import { api } from "../../api/client";
import type { Resource } from "../../api/hooks";
import type { Automatic, TopicOrder } from "../../api/types";
import { Badge, Button, Card, Checkbox, Field, FormDialog, TextInput, toast } from "../../components";
import { formatDecimal, formatSeconds } from "../../lib/numbers";

interface Props {
  automatic: Automatic;
  resource: Resource<TopicOrder>;
}

/** Whether popularity changes the order by itself, and how eagerly. */
export function AutomaticMode({ automatic, resource }: Props) {
  const [isOpen, setOpen] = useState(false);
  const { on, window_s, alpha, beta } = automatic;
  return (
    <Card className="automatic">
      <div className="automatic-line">
        <b>Automatic order</b> <Badge tone={on ? "ok" : "neutral"}>{on ? "on" : "off"}</Badge>
        <span className="muted small">
          {on
            ? `Popular topics move up by themselves, judged every ${formatSeconds(window_s)} (alpha ${formatDecimal(alpha)}, beta ${formatDecimal(beta)}).`
            : "Popular topics stay where they are until you move them."}
        </span>
        <span className="table-spacer" />
        <Button size="small" needs="operator" onClick={() => setOpen(true)}>
          Change
        </Button>
      </div>
      {isOpen && <AutomaticDialog automatic={automatic} resource={resource} onClose={() => setOpen(false)} />}
    </Card>
  );
}

const USUAL_WINDOW_S = 60;

function AutomaticDialog({ automatic, resource, onClose }: Props & { onClose: () => void }) {
  const [etag] = useState(resource.etag);
  const [isOn, setOn] = useState(automatic.on);
  const [window, setWindow] = useState(String(automatic.window_s || USUAL_WINDOW_S)); // 0 while it is off
  const [alpha, setAlpha] = useState(String(automatic.alpha));
  const [beta, setBeta] = useState(String(automatic.beta));
  const body = { on: isOn, window_s: Number(window), alpha: Number(alpha), beta: Number(beta) };
  const isValid = body.window_s > 0 && body.alpha > 0 && body.beta >= 0; // what is no number is none of these
  const save = async (): Promise<void> => {
    try {
      await api.put("/order/automatic", body, { ifMatch: etag });
      toast.ok(isOn ? "Popular topics now move up by themselves." : "The order now changes by hand only.");
    } finally {
      await resource.reload();
    }
  };
  return (
    <FormDialog title="Automatic order" submit="Save" disabled={!isValid} onClose={onClose} onSubmit={save}>
      <Checkbox
        label="Popular topics move up by themselves"
        checked={isOn}
        onChange={(event) => setOn(event.target.checked)}
      />
      <div className="form-row">
        <Field label="Window (s)" hint="How long events are counted before the order is judged.">
          <TextInput inputMode="decimal" value={window} onChange={(event) => setWindow(event.target.value)} />
        </Field>
        <Field label="Alpha" hint="The greater, the fewer events make a topic popular; 0.1 is usual.">
          <TextInput inputMode="decimal" value={alpha} onChange={(event) => setAlpha(event.target.value)} />
        </Field>
        <Field label="Beta" hint="How much more popular a lower topic must be; 0.2 is usual.">
          <TextInput inputMode="decimal" value={beta} onChange={(event) => setBeta(event.target.value)} />
        </Field>
      </div>
      <p className="muted small">Pinned topics keep their stage.</p>
    </FormDialog>
  );
}
