/** Forms for analyses and schedules as requests of the API, or what is wrong with them. */
import type { Job, Places, Schedule } from "../../api/analytics";
import { ApiError } from "../../api/client";

export interface JobForm {
  source: string;
  /** Empty: no results as Parquet. */
  out: string;
  windowS: string;
  maxPairs: string;
  master: string;
}

export interface ScheduleForm extends JobForm {
  name: string;
  cron: string;
  timezone: string;
  isOn: boolean;
}

export type Problems<F> = Partial<Record<keyof F, string>>;

export const LOCAL_MASTER = "local[*]";

/** A form with what is usual; the traces are those that were found, where there is but one choice. */
export function emptyJob(places: Places | null): JobForm {
  const choices = sourcesOf(places);
  return {
    source: choices.length === 1 ? choices[0]! : "",
    out: "",
    windowS: "60",
    maxPairs: "200",
    master: LOCAL_MASTER,
  };
}

export const formOfJob = (job: Job): JobForm => ({
  source: job.source,
  out: job.out ?? "",
  windowS: String(job.window_s),
  maxPairs: String(job.max_pairs),
  master: job.master,
});

export const emptySchedule = (places: Places | null, timezone: string): ScheduleForm => ({
  ...emptyJob(places),
  name: "",
  cron: "0 3 * * *",
  timezone,
  isOn: true,
});

export const formOfSchedule = ({ name, cron, timezone, is_on, job }: Schedule): ScheduleForm => ({
  ...formOfJob(job),
  name,
  cron,
  timezone,
  isOn: is_on,
});

/** What may be analysed: the folders with traces, and those that are allowed as a whole. */
export const sourcesOf = (places: Places | null): string[] =>
  places === null ? [] : [...new Set([...places.found, ...places.traces])];

function numberOf(text: string, least: number, most: number): number | null {
  const value = Number(text.trim());
  return text.trim() !== "" && Number.isFinite(value) && value >= least && value <= most ? value : null;
}

const MOST_WINDOW_S = 366 * 86_400;
const MOST_PAIRS = 1_000_000;

/** The job that a form asks for, or what is wrong with it, field by field. */
export function jobOf(form: JobForm): { job: Job } | { problems: Problems<JobForm> } {
  const problems: Problems<JobForm> = {};
  const windowS = numberOf(form.windowS, 1, MOST_WINDOW_S);
  const maxPairs = numberOf(form.maxPairs, 1, MOST_PAIRS);
  if (form.source.trim() === "") problems.source = "The folder or the address of the traces.";
  if (windowS === null) problems.windowS = "Seconds, from 1 to a year.";
  if (maxPairs === null || !Number.isInteger(maxPairs)) problems.maxPairs = "A whole number, from 1 to a million.";
  if (form.master.trim() === "") problems.master = `Spark's master, such as ${LOCAL_MASTER}.`;
  if (Object.keys(problems).length > 0 || windowS === null || maxPairs === null) return { problems };
  const out = form.out.trim();
  return {
    job: {
      source: form.source.trim(),
      out: out === "" ? null : out,
      window_s: windowS,
      max_pairs: maxPairs,
      master: form.master.trim(),
    },
  };
}

export interface ScheduleRequest {
  name: string;
  cron: string;
  timezone: string;
  job: Job;
  is_on: boolean;
}

/** The request that a form asks for. Whether cron and zone are right, the API says: it is the one that reads them. */
export function scheduleOf(form: ScheduleForm): { request: ScheduleRequest } | { problems: Problems<ScheduleForm> } {
  const wanted = jobOf(form);
  const problems: Problems<ScheduleForm> = "problems" in wanted ? { ...wanted.problems } : {};
  if (form.name.trim() === "") problems.name = "A name, so that you know it again in the list.";
  if (form.cron.trim().split(/\s+/).length !== 5) {
    problems.cron = "Five fields: minute, hour, day of the month, month, day of the week.";
  }
  if (form.timezone.trim() === "") problems.timezone = "A time zone, such as Europe/Rome or UTC.";
  if ("problems" in wanted || Object.keys(problems).length > 0) return { problems };
  return {
    request: {
      name: form.name.trim(),
      cron: form.cron.trim(),
      timezone: form.timezone.trim(),
      job: wanted.job,
      is_on: form.isOn,
    },
  };
}

const FIELDS: Readonly<Record<string, keyof ScheduleForm>> = {
  source: "source",
  out: "out",
  window_s: "windowS",
  max_pairs: "maxPairs",
  master: "master",
  name: "name",
  cron: "cron",
  timezone: "timezone",
};

/** What the API found wrong, at the fields that it names; null where it names none of them. */
export function problemsOf(error: unknown): Problems<ScheduleForm> | null {
  if (!(error instanceof ApiError)) return null;
  const found: Problems<ScheduleForm> = {};
  for (const { where, message } of error.errors) {
    const field = FIELDS[where.split(".").at(-1) ?? ""]; // "body.job.source"
    if (field) found[field] = message;
  }
  // What is forbidden has one reason, which begins with the field that it is about.
  const [, name, reason] = /^(\w+): (.*)$/s.exec(error.detail) ?? [];
  const field = FIELDS[name ?? ""];
  if (error.slug === "forbidden" && field) found[field] = reason!;
  return Object.keys(found).length > 0 ? found : null;
}

/** For a form: its problems stand at the fields. */
export class FormError extends Error {
  constructor() {
    super("Some of this is not right; see above.");
  }
}
