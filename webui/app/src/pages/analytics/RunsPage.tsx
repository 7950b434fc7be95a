import { useCallback, useEffect, useMemo, useState } from "react";
import type { Places, Run, Schedule } from "../../api/analytics";
import { useList, useResource } from "../../api/hooks";
import { useCan } from "../../api/session";
import { Banner, Button, Card, EmptyState, Loaded, PageFrame } from "../../components";
import { useLive } from "../../live/store";
import { HowToRecord } from "./HowToRecord";
import { RunTable } from "./RunTable";
import { ScheduleDialog } from "./ScheduleDialog";
import { ScheduleTable } from "./ScheduleTable";
import { StartDialog } from "./StartDialog";

/** For what no message tells of, such as runs that are deleted elsewhere. */
const EVERY_MS = 10_000;

/** Runs and schedules of analyses. */
export function RunsPage() {
  const runs = useList<Run>("/analytics/runs", { everyMs: EVERY_MS });
  const schedules = useList<Schedule>("/analytics/schedules", { everyMs: EVERY_MS });
  const places = useResource<Places>("/analytics/places");
  const [isStarting, setStarting] = useState(false);
  const [isScheduling, setScheduling] = useState(false);
  const canWrite = useCan("operator");
  const names = useMemo(() => new Map(schedules.data?.items.map(({ id, name }) => [id, name])), [schedules.data]);
  const { reload: reloadRuns } = runs;
  const { reload: reloadSchedules } = schedules;
  const reload = useCallback(() => Promise.all([reloadRuns(), reloadSchedules()]), [reloadRuns, reloadSchedules]);
  const liveRuns = useLive((state) => state.runs);
  useEffect(() => {
    if (liveRuns !== null) void reload();
  }, [liveRuns, reload]);
  const mayStart = (places.data?.traces.length ?? 0) > 0;
  return (
    <PageFrame
      title="Analytics"
      lead="What traces say about the order: how subscribers agreed with the broker alone and with inorder, how long events took, and what it cost."
      actions={
        canWrite && (
          <Button variant="primary" icon="plus" disabled={!mayStart} onClick={() => setStarting(true)}>
            New analysis
          </Button>
        )
      }
    >
      {places.data && !mayStart && (
        <Banner tone="info">
          Analyses cannot be started here: <code>controlplane.traces</code> names no folder. Those that{" "}
          <code>inorder analyze</code> writes to this store are listed all the same.
        </Banner>
      )}
      <Card title="Runs" flush>
        <Loaded resource={runs}>
          {(data) =>
            data.items.length > 0 ? (
              <RunTable runs={data.items} total={data.total} schedules={names} onChanged={reload} />
            ) : (
              <HowToRecord places={places.data} />
            )
          }
        </Loaded>
      </Card>
      <Card
        title="Schedules"
        actions={
          canWrite &&
          mayStart && (
            <Button size="small" icon="plus" onClick={() => setScheduling(true)}>
              New schedule
            </Button>
          )
        }
        flush
      >
        <Loaded resource={schedules}>
          {(data) =>
            data.items.length > 0 ? (
              <ScheduleTable schedules={data.items} total={data.total} places={places.data} onChanged={reload} />
            ) : (
              <EmptyState title="Nothing is scheduled" icon="analytics">
                A schedule analyses the same traces again and again, such as every night; only files that are new are
                read anew.
              </EmptyState>
            )
          }
        </Loaded>
      </Card>
      {isStarting && <StartDialog places={places.data} onClose={() => setStarting(false)} />}
      {isScheduling && (
        <ScheduleDialog schedule={null} places={places.data} onClose={() => setScheduling(false)} onDone={reload} />
      )}
    </PageFrame>
  );
}
