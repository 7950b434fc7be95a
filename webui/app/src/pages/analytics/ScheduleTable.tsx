import type { Schedule } from "../../api/types";
import { Badge, DataTable, Time, type Column } from "../../components";

/** What runs by itself, and when. */
export function ScheduleTable({ schedules, total }: { schedules: readonly Schedule[]; total: number }) {
  return (
    <DataTable name="schedules" columns={COLUMNS} rows={schedules} total={total} rowKey={({ id }) => id} empty={null} />
  );
}

const COLUMNS: Column<Schedule>[] = [
  { key: "name", title: "Name", value: ({ name }) => name },
  {
    key: "cron",
    title: "When",
    csvTitle: "Cron",
    value: ({ cron }) => cron,
    render: ({ cron }) => <code>{cron}</code>,
  },
  { key: "job", title: "Job", value: ({ job }) => (typeof job === "string" ? job : JSON.stringify(job)) },
  {
    key: "on",
    title: "State",
    value: ({ is_on }) => (is_on ? "on" : "off"),
    render: ({ is_on }) => <Badge tone={is_on ? "ok" : "neutral"}>{is_on ? "on" : "off"}</Badge>,
  },
  {
    key: "created",
    title: "Made",
    csvTitle: "Made (UTC)",
    value: ({ created_at }) => created_at,
    render: ({ created_at }) => <Time at={created_at} />,
  },
  { key: "by", title: "By", value: ({ by }) => by },
];
