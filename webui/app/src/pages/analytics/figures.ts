/** The figures of an analysis: what each says, how it is written, and which of two is the better one. */
import type { PairFigures, Summary, Whole } from "../../api/analytics";
import { formatCount, formatDecimal, formatMs, toBigInt } from "../../lib/numbers";

export type Figure = number | bigint | null;

/** One line of the tables of figures. */
export interface FigureLine {
  key: string;
  label: string;
  /** What it says, in one sentence. */
  meaning: string;
  /** As the broker brought the events; missing where that says nothing. */
  raw?: (summary: Summary) => Figure;
  /** As applications were notified. */
  delivered: (summary: Summary) => Figure;
  format: (value: Figure) => string;
  /** Which is better; missing: neither. */
  better?: "higher" | "lower";
  /** What a perfect order has. */
  ideal?: number;
}

export interface FigureGroup {
  title: string;
  lines: readonly FigureLine[];
}

const NONE = "–";

const whole = (value: Whole | null | undefined): bigint | null => toBigInt(value);

export const count = (value: Figure): string => formatCount(value);

/** A share of one with up to six digits: what is not 1 must not look like it. */
export function degree(value: Figure): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return NONE;
  if (value === 1 || value === 0) return String(value);
  // Cut, not rounded: 0.9999999 is less than 1 also for those who read it.
  if (Math.abs(value) < 0.001) return new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 }).format(value);
  const cut = value > 0.5 ? Math.floor(value * 1e6) / 1e6 : Number(value.toPrecision(4));
  return new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 6 }).format(cut);
}

/** "0.25 %"; neither rounded up to 100 nor down to 0. */
export function percent(value: Figure): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return NONE;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  const cut = value < 100 && value > 99.99 ? 99.99 : value;
  return `${new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 }).format(cut)} %`;
}

const decimal = (value: Figure): string => (typeof value === "bigint" ? count(value) : formatDecimal(value));
const ms = (value: Figure): string => formatMs(value === null ? null : Number(value));
const bytes = (value: Figure): string => (value === null ? NONE : `${decimal(value)} B`);

export const ORDER: FigureGroup = {
  title: "Order",
  lines: [
    {
      key: "ordering_degree",
      label: "Ordering degree",
      meaning: "How alike pairs of subscribers saw their common events: 1 is the very same order.",
      raw: (of) => of.ordering_degree_raw,
      delivered: (of) => of.ordering_degree_delivered,
      format: degree,
      better: "higher",
      ideal: 1,
    },
    {
      key: "ordering_degree_min",
      label: "Lowest of a pair",
      meaning: "The ordering degree of the two subscribers who agreed least.",
      raw: (of) => of.ordering_degree_raw_min,
      delivered: (of) => of.ordering_degree_delivered_min,
      format: degree,
      better: "higher",
      ideal: 1,
    },
    {
      key: "tno_violations",
      label: "TNO violations",
      meaning: "Pairs of events that two subscribers saw in opposite orders.",
      raw: (of) => whole(of.tno_violations_raw),
      delivered: (of) => whole(of.tno_violations_delivered),
      format: count,
      better: "lower",
      ideal: 0,
    },
    {
      key: "conflict_rate",
      label: "Conflict rate",
      meaning: "The share of neighbours in one subscriber's order that the other has the other way round.",
      raw: (of) => of.conflict_rate_raw,
      delivered: (of) => of.conflict_rate_delivered,
      format: degree,
      better: "lower",
      ideal: 0,
    },
    {
      key: "displacement_mean",
      label: "Displacement, mean",
      meaning: "By how many places an event stood elsewhere for the other subscriber.",
      raw: (of) => of.displacement_raw.mean,
      delivered: (of) => of.displacement_delivered.mean,
      format: decimal,
      better: "lower",
      ideal: 0,
    },
    {
      key: "displacement_max",
      label: "Displacement, greatest",
      meaning: "The greatest of these distances.",
      raw: (of) => whole(of.displacement_raw.max),
      delivered: (of) => whole(of.displacement_delivered.max),
      format: count,
      better: "lower",
      ideal: 0,
    },
    {
      key: "sequence_detection",
      label: "Sequences detected by both",
      meaning: "Of all runs of three events that one of two subscribers saw, those that the other saw too.",
      raw: (of) => of.sequence_detection_raw_percent,
      delivered: (of) => of.sequence_detection_percent,
      format: percent,
      better: "higher",
      ideal: 100,
    },
  ],
};

export const NOTIFICATION: FigureGroup = {
  title: "Notification",
  lines: [
    {
      key: "late_percent",
      label: "Late",
      meaning: "Notifications that were tagged: a later event had been delivered before.",
      delivered: (of) => of.late_percent,
      format: percent,
      better: "lower",
    },
    {
      key: "notified_1s_percent",
      label: "Notified in 1 s",
      meaning: "Events of which everyone who subscribes to them knew within a second.",
      delivered: (of) => of.notified_1s_percent,
      format: percent,
      better: "higher",
    },
  ],
};

type Part = "latency_ms" | "timestamp_ms" | "ens_ms" | "waiting_ms";

const PARTS: readonly (readonly [Part, string, string])[] = [
  ["latency_ms", "Latency", "From the call of publish until the last subscriber was notified."],
  ["timestamp_ms", "Timestamp", "From the call of publish until the event had its number."],
  ["ens_ms", "Broker", "From there until the broker had brought it to the last subscriber."],
  ["waiting_ms", "Waiting", "From there until everything that comes before it was delivered."],
];

export const LATENCY: FigureGroup = {
  title: "Latency",
  lines: PARTS.flatMap(([part, label, meaning]) =>
    (["p50", "p90", "p99"] as const).map((rank) => ({
      key: `${part}_${rank}`,
      label: `${label}, ${rank === "p50" ? "median" : `${rank.slice(1)} %`}`,
      meaning,
      delivered: (of: Summary) => of[part][rank],
      format: ms,
      better: "lower" as const,
    })),
  ),
};

export const COST: FigureGroup = {
  title: "Cost",
  lines: [
    {
      key: "bytes_per_event",
      label: "Timestamp, as sent",
      meaning: "Bytes that travelled with an event, on average.",
      delivered: (of) => of.bytes_per_event,
      format: bytes,
      better: "lower",
    },
    {
      key: "bytes_per_event_24",
      label: "Timestamp, at 24 B an entry",
      meaning: "What it would have been with the papers' entries of 24 bytes.",
      delivered: (of) => of.bytes_per_event_24,
      format: bytes,
      better: "lower",
    },
    {
      key: "entries_per_event",
      label: "Entries of a timestamp",
      meaning: "The event's own number and those that it depends on, on average.",
      delivered: (of) => of.entries_per_event,
      format: decimal,
      better: "lower",
    },
    {
      key: "stages_per_event",
      label: "Stages visited",
      meaning: "How many stages a timestamp went through, on average.",
      delivered: (of) => of.stages_per_event,
      format: decimal,
      better: "lower",
    },
  ],
};

export const GROUPS: readonly FigureGroup[] = [ORDER, NOTIFICATION, LATENCY, COST];

/** How a figure looks: the ideal one is good, another one of an order that should be ideal is not. */
export function toneOf(line: FigureLine, value: Figure): "ok" | "bad" | undefined {
  if (line.ideal === undefined || value === null) return undefined;
  return Number(value) === line.ideal ? "ok" : "bad";
}

export interface Verdict {
  tone: "ok" | "bad" | "info";
  title: string;
  text: string;
}

/** What the analysis found, in two sentences. */
export function verdictOf(summary: Summary): Verdict {
  const delivered = whole(summary.tno_violations_delivered) ?? 0n;
  if (summary.ordering_degree_delivered === null) {
    return {
      tone: "info",
      title: "There is no order to judge",
      text: "No two subscribers have events in common. Record with at least two clients that subscribe to the same topics.",
    };
  }
  const alone = brokerAlone(summary);
  if (delivered > 0n) {
    const times = delivered === 1n ? "one pair of events" : `${count(delivered)} pairs of events`;
    return { tone: "bad", title: "The order was broken", text: `Subscribers disagree about ${times}. ${alone}` };
  }
  return { tone: "ok", title: "The order held", text: `All subscribers saw one order. ${alone}` };
}

function brokerAlone({ tno_violations_raw, ordering_degree_raw }: Summary): string {
  if (ordering_degree_raw === null) return "";
  const raw = whole(tno_violations_raw) ?? 0n;
  if (raw === 0n) return "The broker alone brought the events in one order, too.";
  const pairs = raw === 1n ? "one pair of events" : `${count(raw)} pairs of events`;
  return `The broker alone would have shown ${pairs} in opposite orders (ordering degree ${degree(ordering_degree_raw)}).`;
}

export interface Difference {
  text: string;
  tone: "ok" | "bad" | undefined;
}

/** B against A: how much more or less it is, and whether that is better. */
export function differenceOf(line: FigureLine, a: Figure, b: Figure): Difference {
  if (a === null || b === null) return { text: NONE, tone: undefined };
  const isWhole = typeof a === "bigint" && typeof b === "bigint";
  const by = isWhole ? b - a : Number(b) - Number(a);
  if (Number(by) === 0) return { text: "same", tone: undefined };
  const isMore = by > 0;
  const size = typeof by === "bigint" ? (isMore ? by : -by) : Math.abs(by);
  const sign = isMore ? "+" : "−";
  const tone = line.better === undefined ? undefined : (line.better === "higher") === isMore ? "ok" : "bad";
  return { text: `${sign}${line.format(typeof size === "number" ? tidy(size) : size)}`, tone };
}

/** Without the digits that subtraction made up: 0.3 - 0.1. */
const tidy = (value: number): number => Number(value.toPrecision(9));

/** The two events that a pair of subscribers disagrees about, as a sentence. */
export function witnessText({ a, b, witness }: PairFigures): string {
  if (!witness) return "";
  const [first, second] = [witness.first, witness.second].map(
    ({ topic, number }) => `${topic} number ${formatCount(number)}`,
  );
  return `${a} had ${first} before ${second}, ${b} had them the other way round.`;
}
