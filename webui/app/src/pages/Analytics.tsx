/** What jobs over recorded traces found out. */
import { useList } from "../api/hooks";
import type { AnalyticsRun, Schedule } from "../api/types";
import { Card, EmptyState, Loaded, PageFrame } from "../components";
import { Link } from "../router";
import { RunTable } from "./analytics/RunTable";
import { ScheduleTable } from "./analytics/ScheduleTable";

const EVERY_MS = 10_000;

export default function Analytics() {
  const runs = useList<AnalyticsRun>("/analytics/runs", { everyMs: EVERY_MS });
  const schedules = useList<Schedule>("/analytics/schedules", { everyMs: EVERY_MS });
  return (
    <PageFrame
      title="Analytics"
      lead="Jobs over recorded traces: degree of order, latency, overhead. Their runs and schedules stand in the store."
    >
      <Card title="Runs" flush>
        <Loaded resource={runs}>
          {(data) =>
            data.items.length > 0 ? (
              <RunTable runs={data.items} total={data.total} />
            ) : (
              <EmptyState title="No job has written a run to this store" icon="analytics">
                Runs are listed here as soon as a job writes one. How it goes right now, and over the last ten minutes,
                is on the <Link to="/">Overview</Link>.
              </EmptyState>
            )
          }
        </Loaded>
      </Card>
      <Card title="Schedules" flush>
        <Loaded resource={schedules}>
          {(data) =>
            data.items.length > 0 ? (
              <ScheduleTable schedules={data.items} total={data.total} />
            ) : (
              <EmptyState title="Nothing is scheduled" icon="analytics">
                Jobs that shall run by themselves are listed here once the store has a schedule for them.
              </EmptyState>
            )
          }
        </Loaded>
      </Card>
    </PageFrame>
  );
}
