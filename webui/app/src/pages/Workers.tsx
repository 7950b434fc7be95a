/** The multistage sequencer: stages, who works on them, who could take over. */
import { useState } from "react";
import { api, part } from "../api/client";
import { useList } from "../api/hooks";
import type { Stage, TakeOver, Worker } from "../api/types";
import { Card, EmptyState, Loaded, PageFrame, toast } from "../components";
import { useLive } from "../live/store";
import { Pipeline } from "./workers/Pipeline";
import { TakeOvers } from "./workers/TakeOvers";
import { DrainDialog, MoveDialog } from "./workers/dialogs";
import { WorkerTable } from "./workers/WorkerTable";
import "../styles/pipeline.css";

const EVERY_MS = 5000;

export default function Workers() {
  const stageList = useList<Stage>("/stages", { everyMs: EVERY_MS });
  const workerList = useList<Worker>("/workers", { everyMs: EVERY_MS });
  const takeOvers = useList<TakeOver>("/stages/takeovers", { everyMs: EVERY_MS });
  const liveStages = useLive((state) => state.stages);
  const liveWorkers = useLive((state) => state.workers);
  const [moving, setMoving] = useState<Stage | null>(null);
  const [draining, setDraining] = useState<Worker | null>(null);

  const workers = liveWorkers ?? workerList.data?.items ?? [];
  const reload = (): Promise<unknown> => Promise.all([stageList.reload(), workerList.reload(), takeOvers.reload()]);
  const undrain = async ({ owner, name }: Worker): Promise<void> => {
    try {
      await api.post(`/workers/${part(owner)}/drain`, undefined, { query: { off: true } });
      toast.ok(`${name} takes stages again.`);
    } catch (error) {
      toast.error(error);
    }
    await reload();
  };
  return (
    <PageFrame
      title="Workers"
      lead="Timestamps enter at the stage of their topic and ride up. Each stage has one active worker; standbys follow its journal and take over when it dies."
    >
      <Card title="Stages" hint="Stage 0 is the top." flush>
        <Loaded resource={stageList}>
          {(data) => <Pipeline stages={liveStages ?? data.items} workers={workers} onMove={setMoving} />}
        </Loaded>
      </Card>
      <Card title="Workers" flush>
        <Loaded resource={workerList}>
          {(data) => (
            <WorkerTable
              workers={liveWorkers ?? data.items}
              onDrain={setDraining}
              onUndrain={(worker) => void undrain(worker)}
            />
          )}
        </Loaded>
      </Card>
      <Card
        title="Take-overs"
        hint="Each one raises the epoch of its stage; clients ignore answers of lower epochs."
        flush
      >
        <Loaded resource={takeOvers}>
          {(data) =>
            data.items.length > 0 ? (
              <TakeOvers items={data.items} total={data.total} />
            ) : (
              <EmptyState title="No stage has changed hands yet" icon="workers">
                What is claimed, taken over or handed over is listed here.
              </EmptyState>
            )
          }
        </Loaded>
      </Card>
      {moving && <MoveDialog stage={moving} workers={workers} onClose={() => setMoving(null)} onDone={reload} />}
      {draining && (
        <DrainDialog worker={draining} workers={workers} onClose={() => setDraining(null)} onDone={reload} />
      )}
    </PageFrame>
  );
}
