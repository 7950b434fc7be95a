/** A result as the API sends it, for tests to change. */
import type { Result, Run, RunDetail, RunFigures, Summary, WindowFigures } from "../../../src/api/analytics";

const spread = (p50: number | null, p90 = p50, p99 = p90) => ({ p50, p90, p99 });

export const SUMMARY: Summary = {
  events: 1200,
  subscribers: 3,
  publishers: 2,
  topics: 2,
  ordering_degree_raw: 0.9712,
  ordering_degree_delivered: 1,
  ordering_degree_raw_min: 0.91,
  ordering_degree_delivered_min: 1,
  tno_violations_raw: 381,
  tno_violations_delivered: 0,
  conflict_rate_raw: 0.04,
  conflict_rate_delivered: 0,
  displacement_raw: { mean: 1.5, max: 9 },
  displacement_delivered: { mean: 0, max: 0 },
  late_percent: 0,
  notified_1s_percent: 100,
  sequence_detection_raw_percent: 82.5,
  sequence_detection_percent: 100,
  latency_ms: spread(2.1, 4.8, 11),
  timestamp_ms: spread(0.4, 0.6, 2),
  ens_ms: spread(1.1, 2.2, 5),
  waiting_ms: spread(0.1, 1.2, 6),
  clock_error_ms: { p50: 0.2, max: 0.5 },
  negative_latencies: 0,
  uncorrected: 0,
  bytes_per_event: 31.5,
  bytes_per_event_24: 52.8,
  entries_per_event: 2.2,
  stages_per_event: 1.4,
  gaps: {},
  dropped_rows: 0,
};

const PAIRS = { total: 3, used: 3, limit: 200, seed: 0 };

export const windowAt = (start: string, changes: Partial<WindowFigures> = {}): WindowFigures => ({
  run: "default",
  start,
  events: 10,
  late_percent: 0,
  notified_1s_percent: 100,
  latency_ms: spread(2, 4, 8),
  ...changes,
});

export const recorded = (run: string, changes: Partial<Summary> = {}): RunFigures => ({
  ...SUMMARY,
  ...changes,
  run,
  pairs: PAIRS,
});

export function result(changes: Partial<Result> = {}): Result {
  return {
    ...SUMMARY,
    version: 1,
    path: "/var/lib/inorder/traces",
    made_at: "2026-03-01T09:30:40.500Z",
    rows: 8000,
    window_s: 60,
    files: { read: 6, bytes: 250_000, damaged: [] },
    pairs: PAIRS,
    by_run: [recorded("default")],
    by_topic: [],
    by_subscriber: [],
    by_window: [windowAt("2026-03-01T09:00:00Z"), windowAt("2026-03-01T09:01:00Z")],
    worst_pairs: [],
    message_overhead: [],
    popularity: [],
    topic_order: [],
    cut: {},
    ...changes,
  };
}

export const run = (id: string, changes: Partial<Run> = {}): Run => ({
  id,
  kind: "analyze",
  source: "/var/lib/inorder/traces",
  job: { source: "/var/lib/inorder/traces", out: null, window_s: 60, max_pairs: 200, master: "local[*]" },
  schedule: null,
  by: "ann",
  queued_at: "2026-03-01T09:30:00.125Z",
  started_at: "2026-03-01T09:30:01.000Z",
  ended_at: "2026-03-01T09:30:40.500Z",
  duration_s: 39.5,
  outcome: "done",
  reason: null,
  cancelled_by: null,
  progress: null,
  summary: SUMMARY,
  ...changes,
});

export const detail = (id: string, changes: Partial<RunDetail> = {}): RunDetail => ({
  ...run(id),
  result: result(),
  log: "1/9 read\n",
  ...changes,
});
