import { useMemo, useState } from "react";
import type { Places, Run, Schedule } from "../../api/analytics";
import { api, part } from "../../api/client";
import { useCan } from "../../api/session";
import {
  actionsColumn,
  Badge,
  Button,
  DataTable,
  FormDialog,
  StateBadge,
  Time,
  toast,
  type Column,
} from "../../components";
import { formatUtc } from "../../lib/times";
import { Link, navigate } from "../../router";
import { dueText, shortSource } from "./runs";
import { ScheduleDialog } from "./ScheduleDialog";

type Asked = { what: "edit" | "delete"; schedule: Schedule };

interface ScheduleTableProps {
  schedules: readonly Schedule[];
  total: number;
  places: Places | null;
  onChanged: () => Promise<unknown>;
}

/** What runs by itself, and when. */
export function ScheduleTable({ schedules, total, places, onChanged }: ScheduleTableProps) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const canWrite = useCan("operator");
  const columns = useMemo(
    () =>
      canWrite
        ? [
            ...COLUMNS,
            actionsColumn((row: Schedule) => <Actions schedule={row} onAsk={setAsked} onChanged={onChanged} />),
          ]
        : COLUMNS,
    [canWrite, onChanged],
  );
  const close = (): void => setAsked(null);
  return (
    <>
      <DataTable
        name="schedules"
        columns={columns}
        rows={schedules}
        total={total}
        rowKey={({ id }) => id}
        empty={null}
      />
      {asked?.what === "edit" && (
        <ScheduleDialog schedule={asked.schedule} places={places} onClose={close} onDone={onChanged} />
      )}
      {asked?.what === "delete" && <DeleteDialog schedule={asked.schedule} onClose={close} onDone={onChanged} />}
    </>
  );
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    key: "name",
    title: "Name",
    value: ({ name }) => name,
    render: ({ name, job, by }) => (
      <>
        {name}
        <span className="figure-meaning" title={job.source}>
          {shortSource(job.source)}, made by {by}
        </span>
      </>
    ),
  },
  {
    key: "on",
    title: "State",
    value: ({ is_on }) => (is_on ? "on" : "off"),
    render: ({ is_on }) => <Badge tone={is_on ? "ok" : "neutral"}>{is_on ? "on" : "off"}</Badge>,
  },
  {
    key: "cron",
    title: "When",
    csvTitle: "Cron",
    value: ({ cron, timezone }) => `${cron} ${timezone}`,
    render: ({ cron, timezone }) => (
      <span>
        <code className="nowrap">{cron}</code> <span className="muted small">{timezone}</span>
      </span>
    ),
  },
  {
    key: "next",
    title: "Next",
    csvTitle: "Next (UTC)",
    value: ({ next }) => next[0],
    render: ({ next }) => <Due next={next} />,
  },
  {
    key: "last",
    title: "Last",
    csvTitle: "Last (UTC)",
    value: ({ fired_at }) => fired_at,
    render: ({ fired_at, last_run }) => (
      <span className="run-progress">
        <Time at={fired_at} />
        {last_run && (
          <Link to={`/analytics/${last_run.id}`}>
            <StateBadge state={last_run.outcome} />
          </Link>
        )}
      </span>
    ),
  },
  { key: "source", title: "Traces", value: ({ job }) => job.source, isHidden: true },
  { key: "by", title: "By", value: ({ by }) => by, isHidden: true },
];

/** In the viewer's zone and in UTC; the times after the next one as a tooltip. */
function Due({ next }: { next: readonly string[] }) {
  if (next[0] === undefined) return <span className="muted">–</span>;
  return (
    <time className="num" dateTime={next[0]} title={next.map(formatUtc).join("\n")}>
      {dueText(next[0])}
    </time>
  );
}

interface ActionsProps {
  schedule: Schedule;
  onAsk: (asked: Asked) => void;
  onChanged: () => Promise<unknown>;
}

function Actions({ schedule, onAsk, onChanged }: ActionsProps) {
  const [busy, setBusy] = useState(false);
  const { id, name, is_on } = schedule;
  const path = `/analytics/schedules/${part(id)}`;
  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    try {
      await work();
      await onChanged();
    } catch (error) {
      toast.error(error);
    } finally {
      setBusy(false);
    }
  };
  const runNow = async (): Promise<void> => {
    const { data } = await api.post<Run>(`${path}/run`);
    toast.ok(`${name} is started.`);
    navigate(`/analytics/${data.id}`);
  };
  const turn = async (): Promise<void> => {
    const { data, etag } = await api.get<Schedule>(path);
    const { cron, timezone, job } = data;
    await api.put(path, { name: data.name, cron, timezone, job, is_on: !is_on }, { ifMatch: etag });
    toast.ok(`${name} is ${is_on ? "off" : "on"}.`);
  };
  return (
    <span className="row-actions">
      <Button size="small" busy={busy} aria-label={`Run ${name} now`} onClick={() => void act(runNow)}>
        Run now
      </Button>
      <Button
        size="small"
        busy={busy}
        aria-label={`Turn ${name} ${is_on ? "off" : "on"}`}
        onClick={() => void act(turn)}
      >
        Turn {is_on ? "off" : "on"}
      </Button>
      <Button size="small" aria-label={`Change ${name}`} onClick={() => onAsk({ what: "edit", schedule })}>
        Change…
      </Button>
      <Button
        size="small"
        variant="danger"
        aria-label={`Delete ${name}`}
        onClick={() => onAsk({ what: "delete", schedule })}
      >
        Delete…
      </Button>
    </span>
  );
}

interface DeleteDialogProps {
  schedule: Schedule;
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

function DeleteDialog({ schedule, onClose, onDone }: DeleteDialogProps) {
  const remove = async (): Promise<void> => {
    await api.delete(`/analytics/schedules/${part(schedule.id)}`);
    toast.ok(`${schedule.name} is deleted.`);
    await onDone();
  };
  return (
    <FormDialog
      title={`Delete the schedule “${schedule.name}”`}
      submit="Delete the schedule"
      danger
      onClose={onClose}
      onSubmit={remove}
    >
      <ul className="consequence">
        <li>It starts no more runs. One that goes on now is not cancelled.</li>
        <li>The runs that it started stay in the list.</li>
      </ul>
    </FormDialog>
  );
}
