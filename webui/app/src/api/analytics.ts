/** What /api/v1/analytics answers: runs of analyses over traces, their results, and schedules. */
import type { Digits, Instant, Percentiles } from "./types";

/** A whole number: digits where it may be beyond 2^53. */
export type Whole = number | Digits;

/** Percentiles in milliseconds; null: there was nothing to take them of. */
export type Spread = { [Rank in keyof Percentiles]: number | null };

/** Null: the traces do not say. */
interface Displacement {
  mean: number | null;
  max: Whole | null;
}

/** What topics, subscribers and windows of time have alike. */
export interface Figures {
  run: string;
  events: Whole;
  late_percent: number | null;
  notified_1s_percent: number | null;
  latency_ms: Spread;
}

/** The figures of one recorded run, or of all together; null: the traces do not say. */
export interface Summary {
  events: Whole;
  subscribers: Whole;
  publishers: Whole;
  topics: Whole;
  ordering_degree_raw: number | null;
  ordering_degree_delivered: number | null;
  ordering_degree_raw_min: number | null;
  ordering_degree_delivered_min: number | null;
  tno_violations_raw: Whole;
  tno_violations_delivered: Whole;
  conflict_rate_raw: number | null;
  conflict_rate_delivered: number | null;
  displacement_raw: Displacement;
  displacement_delivered: Displacement;
  late_percent: number | null;
  notified_1s_percent: number | null;
  sequence_detection_raw_percent: number | null;
  sequence_detection_percent: number | null;
  latency_ms: Spread;
  timestamp_ms: Spread;
  ens_ms: Spread;
  waiting_ms: Spread;
  clock_error_ms: { p50: number | null; p99?: number | null; max: number | null };
  negative_latencies: Whole;
  uncorrected: Whole;
  bytes_per_event: number | null;
  bytes_per_event_24: number | null;
  entries_per_event: number | null;
  stages_per_event: number | null;
  /** Numbers that were reported as missing, by reason. */
  gaps: Record<string, Whole>;
  /** Rows that clients could not record. */
  dropped_rows: Whole;
}

/** Which pairs of subscribers were compared: all of them, or a sample. */
export interface Pairs {
  total: Whole;
  used: Whole;
  limit: Whole;
  seed: Whole;
}

export interface RunFigures extends Summary {
  run: string;
  pairs: Pairs;
}

export interface TopicFigures extends Figures {
  topic: string;
}

export interface SubscriberFigures extends Figures {
  client: string;
}

export interface WindowFigures extends Figures {
  start: Instant;
}

export interface EventName {
  topic: string;
  number: Whole;
}

export interface PairFigures {
  run: string;
  a: string;
  b: string;
  /** Of their common delivered stream, and of the raw one. */
  length: Whole;
  length_raw: Whole;
  ordering_degree_raw: number | null;
  ordering_degree_delivered: number | null;
  tno_violations_raw: Whole;
  tno_violations_delivered: Whole;
  /** Two events that follow each other at `a`, and stand the other way round at `b`. */
  witness: { first: EventName; second: EventName } | null;
}

export interface StageOverhead {
  run: string;
  stage: number;
  own: Whole;
  foreign: Whole;
  percent: number | null;
}

export interface TopicPopularity {
  run: string;
  topic: string;
  events: Whole;
  per_1000: number;
}

export interface SuggestedOrder {
  run: string;
  /** The topics of each stage, from the top. */
  suggested: string[][] | null;
  /** A higher and a lower topic that should change places. */
  swaps: [string, string][] | null;
}

export interface Result extends Summary {
  version: number;
  path: string;
  made_at: Instant;
  rows: Whole;
  window_s: number;
  files: { read: Whole; bytes: Whole; damaged: { file: string; reason: string }[] };
  pairs: Pairs;
  by_run: RunFigures[];
  by_topic: TopicFigures[];
  by_subscriber: SubscriberFigures[];
  by_window: WindowFigures[];
  worst_pairs: PairFigures[];
  message_overhead: StageOverhead[];
  popularity: TopicPopularity[];
  topic_order: SuggestedOrder[];
  /** How many items each list had that is not whole here. */
  cut: Record<string, Whole>;
}

export type Outcome = "queued" | "running" | "done" | "failed" | "cancelled";

/** What an analysis is to do. */
export interface Job {
  /** Folder or address of the traces. */
  source: string;
  /** Where the results go as Parquet; null: nowhere but the store. */
  out: string | null;
  window_s: number;
  max_pairs: number;
  /** Of Spark. */
  master: string;
}

export interface Run {
  id: string;
  kind: string;
  source: string;
  job: Job;
  /** The schedule that was due; null: somebody asked for it. */
  schedule: string | null;
  by: string;
  queued_at: Instant;
  started_at: Instant | null;
  ended_at: Instant | null;
  /** From start to end, or until now. */
  duration_s: number | null;
  outcome: Outcome;
  /** Why it failed or was cancelled. */
  reason: string | null;
  /** Who wants it to end, also while it still goes on. */
  cancelled_by: string | null;
  progress: { step: number; of: number; what: string } | null;
  /** The figures of its result. */
  summary: Summary | null;
}

export interface RunDetail extends Run {
  result: Result | null;
  /** Its last lines. */
  log: string;
}

/** What analyses may read and write here. */
export interface Places {
  /** Folders, and beginnings of URLs; none: no analysis may be started here. */
  traces: string[];
  /** Spark masters beside local ones. */
  masters: string[];
  /** Analyses that this control plane runs at a time. */
  concurrency: number;
  /** Folders with traces right below those of `traces`. */
  found: string[];
}

export interface Schedule {
  id: string;
  name: string;
  cron: string;
  /** The zone that cron is meant in: "Europe/Rome". */
  timezone: string;
  job: Job;
  is_on: boolean;
  created_at: Instant;
  by: string;
  /** When it last started a run. */
  fired_at: Instant | null;
  /** When it is due next, the soonest first; none while it is off. */
  next: Instant[];
  last_run: { id: string; outcome: Outcome } | null;
}
