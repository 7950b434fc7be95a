import { useEffect, useState } from "react";
import type { Places, Schedule } from "../../api/analytics";
import { api, part } from "../../api/client";
import { useResource } from "../../api/hooks";
import { Checkbox, Field, FormDialog, Skeleton, TextInput, toast } from "../../components";
import { zoneName } from "../../lib/times";
import { JobFields } from "./JobFields";
import {
  emptySchedule,
  FormError,
  formOfSchedule,
  problemsOf,
  scheduleOf,
  type Problems,
  type ScheduleForm,
} from "./jobForm";
import { dueText } from "./runs";

interface ScheduleDialogProps {
  /** Null: a new one. */
  schedule: Schedule | null;
  places: Places | null;
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

/** Makes a schedule or changes one; what was changed meanwhile is not overwritten. */
export function ScheduleDialog({ schedule, places, onClose, onDone }: ScheduleDialogProps) {
  const path = schedule ? `/analytics/schedules/${part(schedule.id)}` : null;
  const current = useResource<Schedule>(path);
  const [form, setForm] = useState<ScheduleForm>(
    schedule ? formOfSchedule(schedule) : emptySchedule(places, zoneName()),
  );
  const [problems, setProblems] = useState<Problems<ScheduleForm>>({});
  const set = (changes: Partial<ScheduleForm>): void => setForm((before) => ({ ...before, ...changes }));
  const save = async (): Promise<void> => {
    const wanted = scheduleOf(form);
    setProblems("problems" in wanted ? wanted.problems : {});
    if ("problems" in wanted) throw new FormError();
    try {
      if (path === null) await api.post("/analytics/schedules", wanted.request);
      else await api.put(path, wanted.request, { ifMatch: current.etag });
    } catch (error) {
      const found = problemsOf(error);
      if (found === null) throw error;
      setProblems(found);
      throw new FormError();
    }
    toast.ok(schedule ? "The schedule is changed." : "The schedule is made.");
    await onDone();
  };
  return (
    <FormDialog
      title={schedule ? `Schedule “${schedule.name}”` : "New schedule"}
      submit={schedule ? "Save" : "Make the schedule"}
      disabled={path !== null && current.etag === null}
      wide
      onClose={onClose}
      onSubmit={save}
    >
      <div className="form-row">
        <Field label="Name" error={problems.name}>
          <TextInput value={form.name} maxLength={128} onChange={(event) => set({ name: event.target.value })} />
        </Field>
        <Field label="When (cron)" hint="Minute, hour, day, month, day of the week." error={problems.cron}>
          <TextInput
            className="mono"
            value={form.cron}
            maxLength={100}
            onChange={(event) => set({ cron: event.target.value })}
          />
        </Field>
        <Field label="Time zone" hint="That the hours are meant in." error={problems.timezone}>
          <TextInput value={form.timezone} maxLength={64} onChange={(event) => set({ timezone: event.target.value })} />
        </Field>
      </div>
      <DuePreview cron={form.cron} timezone={form.timezone} />
      <JobFields form={form} problems={problems} places={places} set={set} />
      <Checkbox label="It is on" checked={form.isOn} onChange={(event) => set({ isOn: event.target.checked })} />
    </FormDialog>
  );
}

const PAUSE_MS = 400;

/** When it would be due, asked of the API a moment after the last key; what is wrong is told when it is saved. */
function DuePreview({ cron, timezone }: { cron: string; timezone: string }) {
  const [next, setNext] = useState<readonly string[] | null>(null);
  const [isAsking, setAsking] = useState(true);
  useEffect(() => {
    const controller = new AbortController();
    setAsking(true);
    const timer = setTimeout(() => {
      api
        .get<{ next: string[] }>("/analytics/cron", {
          query: { expression: cron, timezone },
          signal: controller.signal,
        })
        .then(({ data }) => setNext(data.next))
        .catch(() => setNext(null))
        .finally(() => !controller.signal.aborted && setAsking(false));
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [cron, timezone]);
  if (isAsking && next === null) return <Skeleton lines={1} />;
  return (
    <p className="small muted" role="status">
      {next === null ? "Not understood as times." : `Next: ${next.map(dueText).join("; ")}`}
    </p>
  );
}
