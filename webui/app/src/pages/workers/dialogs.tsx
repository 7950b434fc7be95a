import { useState } from "react";
import { api, part } from "../../api/client";
import type { Stage, Worker } from "../../api/types";
import { Banner, Field, FormDialog, Select, toast } from "../../components";
import { targetsOf } from "./pipeline";

interface DialogProps {
  workers: readonly Worker[];
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

/** Moves one stage to another worker. */
export function MoveDialog({ stage, workers, onClose, onDone }: DialogProps & { stage: Stage }) {
  const targets = targetsOf(stage, workers);
  const [to, setTo] = useState(targets[0]?.owner ?? "");
  const move = async (): Promise<void> => {
    await api.post(`/stages/${stage.stage}/move`, { to });
    toast.ok(`Stage ${stage.stage} has moved.`);
    await onDone();
  };
  return (
    <FormDialog
      title={`Move stage ${stage.stage}`}
      submit="Move the stage"
      disabled={to === ""}
      onClose={onClose}
      onSubmit={move}
    >
      <Field label="To" hint="Standbys that follow the stage take over fastest.">
        <Select value={to} onChange={(event) => setTo(event.target.value)}>
          {targets.map((each) => (
            <option key={each.owner} value={each.owner}>
              {each.name} ({each.state}, {each.address ?? each.owner})
            </option>
          ))}
        </Select>
      </Field>
      <Pause />
      <p className="muted">The new worker then keeps to the stages that it has, until it is started again.</p>
    </FormDialog>
  );
}

/** Takes all stages from a worker, so that it can be stopped. */
export function DrainDialog({ worker, workers, onClose, onDone }: DialogProps & { worker: Worker }) {
  const others = targetsOf(worker, workers);
  const drain = async (): Promise<void> => {
    await api.post(`/workers/${part(worker.owner)}/drain`);
    toast.ok(`${worker.name} is drained.`);
    await onDone();
  };
  return (
    <FormDialog title={`Drain ${worker.name}`} submit="Drain the worker" danger onClose={onClose} onSubmit={drain}>
      <p>
        {worker.stages.length > 0 &&
          `It gives ${worker.stages.length === 1 ? "its stage" : "its stages"} ${worker.stages.join(", ")} to other workers. `}
        It takes no stage any more, until it is told so or started again. Then it can be stopped without anybody
        noticing.
      </p>
      {worker.stages.length > 0 && others.length === 0 && (
        <Banner tone="warn">There is no other worker that could take them.</Banner>
      )}
      <Pause />
    </FormDialog>
  );
}

function Pause() {
  return (
    <p className="muted">
      Applications see a pause while the stage is handed over, no error: what was asked for meanwhile is answered by the
      new worker.
    </p>
  );
}
