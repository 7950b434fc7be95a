/** What /api/v1 answers. Numbers that may need 64 bits are strings of decimal digits. */

/** A whole number as decimal digits. */
export type Digits = string;
/** RFC 3339, UTC. */
export type Instant = string;

export type Role = "viewer" | "operator" | "admin";

export interface Session {
  name: string;
  role: Role;
  csrf: string;
  expires_at: Instant;
}

export interface TopicRef {
  id: Digits;
  space: string;
  name: string;
}

export interface Alarm {
  id: string;
  severity: "warning" | "critical";
  since: Instant;
  title: string;
  detail: string;
  /** The page where it can be dealt with: "/gaps". */
  page: string | null;
}

export const TOTALS = [
  "timestamps",
  "delivered",
  "in_order",
  "late",
  "gaps",
  "lost",
  "duplicates",
  "void",
  "abandoned",
] as const;
export type TotalName = (typeof TOTALS)[number];

export type Totals = Record<TotalName, Digits | null>;
/** Per second. */
export type Rates = Record<TotalName, number | null>;

export interface Percentiles {
  p50: number;
  p90: number;
  p99: number;
}

export type LatencyPart = "timestamp_ms" | "ens_ms" | "wait_ms" | "total_ms";

/** One second of the whole system, as rates per second. */
export interface Sample {
  at: Instant;
  timestamps: number | null;
  delivered: number | null;
  late: number | null;
  gaps: number | null;
  duplicates: number | null;
  total_ms_p50: number | null;
}

export type SystemState = "ok" | "degraded" | "down";

export interface Overview {
  at: Instant;
  state: SystemState;
  alarms: Alarm[];
  counts: { topics: number; clients: number; subscriptions: number; workers: number; stages: number };
  /** Null: nobody reports it. */
  totals: Totals;
  rates: Rates;
  /** Null: no client reports; a part: nobody told of it. */
  latency: Record<LatencyPart, Percentiles | null> | null;
  series: Sample[];
}

/** What an event log keeps, the oldest forgotten first; 0: no such bound. */
export interface LogBounds {
  max_age_s: number;
  max_count: number;
  max_bytes: number;
}

export interface Topic extends TopicRef {
  stage: number;
  /** 1 is the highest. */
  rank: number;
  /** Timestamps per second over the last seconds; null: not known. */
  rate: number | null;
  /** The last number given. */
  number: Digits;
  /** The highest number whose event the broker accepted. */
  head: Digits;
  /** How many of them the broker accepted. */
  confirmed: Digits;
  pending: Digits;
  void: Digits;
  abandoned: Digits;
  late: Digits;
  subscribers: number;
  group_size: number;
  pinned: boolean;
  log: LogBounds | null;
}

export interface TopicDetail extends Topic {
  /** The sequencing group: topics that share at least two subscriptions with this one. */
  group: (TopicRef & { stage: number })[];
}

export interface LoggedEvent {
  number: Digits;
  stored_at: Instant;
  dependencies: { topic: TopicRef; number: Digits }[];
  payload_base64: string;
  payload_text: string | null;
  qos: number;
}

export interface OrderTopic extends TopicRef {
  pinned: boolean;
  rate: number | null;
}

export interface Automatic {
  on: boolean;
  window_s: number;
  alpha: number;
  beta: number;
}

export interface TopicOrder {
  order_epoch: Digits;
  stages: { stage: number; topics: OrderTopic[] }[];
  automatic?: Automatic | null;
}

export interface Move {
  topic: TopicRef;
  from_stage: number;
  to_stage: number;
  from_rank: number;
  to_rank: number;
}

export interface OrderPreview {
  order_epoch: Digits;
  /** Topics that merely make room for others are not among them. */
  moves: Move[];
  moves_total: number;
  expected_stages_per_event: { now: number; then: number };
  rates_known: boolean;
  warnings: string[];
}

export interface OrderChange {
  order_epoch: Digits;
  at: Instant;
  kind: "start" | "manual" | "automatic";
  who: string;
  /** Null: the order before it is not known. */
  moves: Move[] | null;
  moves_total: number | null;
}

export interface Filter {
  space: string;
  filter: string;
}

export interface Subscription {
  client: string;
  durable: boolean;
  connected: boolean;
  away_s: number | null;
  filters: Filter[];
  topics: number;
  /** The name of the token that it is of. */
  token: string | null;
}

export interface Overlap {
  /** Those that share most. */
  clients: string[];
  clients_total: number;
  matrix: number[][];
  pairs: { a: string; b: string; shared: number; topics: TopicRef[] }[];
  sequenced_pairs: { topics: [TopicRef, TopicRef]; subscribers: number; stages_apart: number }[];
  sequenced_pairs_total: number;
}

export interface Worker {
  owner: string;
  name: string;
  address: string | null;
  state: string;
  stages: number[];
  pins: number[];
  /** It takes no stage until it is started again, or told so. */
  drained: boolean;
  lag: Record<string, Digits | number>;
}

export interface Stage {
  stage: number;
  epoch: Digits;
  owner: string | null;
  address: string | null;
  state: string;
  row: Digits;
  /** Null: the workers do not answer. */
  topics: number | null;
  rate: number | null;
}

export interface TakeOver {
  stage: number;
  epoch: Digits;
  owner: string;
  address: string | null;
  at: Instant;
  kind: "claim" | "takeover" | "handover";
}

export interface EventDetail {
  topic: TopicRef;
  number: Digits;
  state: string;
  dependencies: { topic: TopicRef; number: Digits; state: string }[];
  client: string | null;
  /** Of the publisher's process: 64 bits, signed. */
  incarnation: Digits | null;
  counter: Digits | null;
  logged: boolean;
  stored_at: Instant | null;
  payload_base64: string | null;
  payload_text: string | null;
  life: { at: Instant | null; what: string; who: string | null; detail: string }[];
  /** Clients that say that they hold it back, or wait for it. */
  waiting: string[];
}

export interface StuckNumber {
  topic: TopicRef;
  first: Digits;
  last: Digits;
  state: string;
  reason: string;
  /** Their publisher; null: nothing is open, but clients wait for them. */
  client: string | null;
  /** How long its publisher has been gone; null: it is connected. */
  away_s: number | null;
  age_s: number;
  logged: boolean;
  /** Clients that say that they hold events back for them. */
  waiting: string[];
  /** The event that waits longest of these. */
  holds: { topic: TopicRef; number: Digits } | null;
}

export interface Token {
  id: string;
  name: string;
  role: Role | "client";
  publish: string[] | null;
  subscribe: string[] | null;
  max_unconfirmed: number | null;
  /** Topics that all tokens of its name may make together; 0: any; null: as the workers are set. */
  max_topics: number | null;
  /** Durable subscriptions that they may have at a time; 0: any; null: as the workers are set. */
  max_subscriptions: number | null;
  created_at: Instant;
  expires_at: Instant | null;
  revoked_at: Instant | null;
}

export interface AuditEntry {
  id: Digits;
  at: Instant;
  who: string;
  role: string;
  via: "rest" | "worker";
  action: string;
  target: string;
  detail: unknown;
  outcome: "started" | "done" | "refused" | "unknown";
}

/** A run of an analysis, as /live tells of it: those that are open, and the one that ended last. */
export interface LiveRun {
  id: string;
  outcome: string;
  progress: { step: number; of: number; what: string } | null;
  cancelled_by: string | null;
}

/** Messages of the WebSocket /live. */
export type LiveMessage =
  | ({ type: "sample"; rates?: Rates; totals?: Totals } & Sample)
  | { type: "states"; stages: Stage[]; workers: Worker[] }
  | { type: "alarms"; alarms: Alarm[]; state?: SystemState }
  | { type: "order"; order_epoch: Digits }
  | { type: "runs"; runs: LiveRun[] };

/** Messages of the WebSocket /tail. */
export type TailMessage =
  | {
      type: "event";
      topic: { space: string; name: string };
      number: Digits | null;
      /** A higher number of the topic had arrived from the broker before. */
      late: boolean;
      retained: boolean;
      at: Instant;
      payload_text: string | null;
      payload_base64: string | null;
      size: number;
      /** Only the beginning of the payload is here. */
      truncated: boolean;
    }
  | { type: "dropped"; count: number };
