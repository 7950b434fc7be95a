import { useEffect, useRef } from "react";
import type { Run, RunDetail } from "../../api/analytics";
import { api, part } from "../../api/client";
import { useResource } from "../../api/hooks";
import { Dialog, FormDialog, Loaded, StateBadge, toast } from "../../components";
import { isOpen } from "./runs";

interface RunDialogProps {
  run: Run;
  onClose: () => void;
}

/** The last lines of a run's log, scrolled to the newest one. */
export function LogText({ run }: { run: RunDetail }) {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [run.log]);
  if (run.log === "") return <p className="muted">{isOpen(run) ? "It has said nothing yet." : "It logged nothing."}</p>;
  return (
    <pre ref={box} className="payload run-log" tabIndex={0} aria-label="Log">
      {run.log}
    </pre>
  );
}

const SOON_MS = 1500;

/** The log of a run; it grows while the run goes on. */
export function LogDialog({ run, onClose }: RunDialogProps) {
  const current = useResource<RunDetail>(`/analytics/runs/${part(run.id)}`, isOpen(run) ? { everyMs: SOON_MS } : {});
  return (
    <Dialog title={`Log of ${run.source}`} wide onClose={onClose}>
      <Loaded resource={current}>
        {(data) => (
          <>
            <p>
              <StateBadge state={data.outcome} /> <span className="muted">{data.reason}</span>
            </p>
            <LogText run={data} />
          </>
        )}
      </Loaded>
    </Dialog>
  );
}

export function CancelDialog({ run, onClose, onDone }: RunDialogProps & { onDone: () => Promise<unknown> }) {
  const cancel = async (): Promise<void> => {
    await api.post(`/analytics/runs/${part(run.id)}/cancel`);
    toast.ok("The run will end.");
    await onDone();
  };
  return (
    <FormDialog title="Cancel the run" submit="Cancel the run" danger onClose={onClose} onSubmit={cancel}>
      <ul className="consequence">
        <li>The analysis of {run.source} ends without a result.</li>
        <li>The traces stay as they are; it can be started again.</li>
      </ul>
    </FormDialog>
  );
}

export function DeleteDialog({ run, onClose, onDone }: RunDialogProps & { onDone: () => Promise<unknown> }) {
  const remove = async (): Promise<void> => {
    await api.delete(`/analytics/runs/${part(run.id)}`);
    toast.ok("The run is deleted.");
    await onDone();
  };
  return (
    <FormDialog title="Delete the run" submit="Delete the run" danger onClose={onClose} onSubmit={remove}>
      <ul className="consequence">
        <li>Its figures and its log are taken out of the store.</li>
        <li>The traces in {run.source} stay, and so do results that were written as Parquet.</li>
      </ul>
    </FormDialog>
  );
}
