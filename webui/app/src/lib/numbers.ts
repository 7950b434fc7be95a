/**
 * Numbers for people. Sequence numbers, epochs and totals come as strings of 64-bit integers; they are never made
 * into JavaScript numbers, which would lose digits above 2^53 - only into BigInt.
 */

/** A count: a number, or a string of decimal digits. */
export type Quantity = number | string | bigint;

const NONE = "–";
const WHOLE = /^-?\d+$/;

/** The number as BigInt, null if it is no whole number. */
export function toBigInt(value: Quantity | null | undefined): bigint | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return value;
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : null;
  return WHOLE.test(value) ? BigInt(value) : null;
}

/** Digits grouped as the reader's language does it: "12,345". Every digit of a 64-bit number stays. */
export function formatCount(value: Quantity | null | undefined): string {
  const whole = toBigInt(value);
  if (whole !== null) return new Intl.NumberFormat().format(whole);
  return typeof value === "number" && Number.isFinite(value) ? formatDecimal(value) : NONE;
}

/** A short form for narrow places: "12.3K", "4.5M". */
export function formatCompact(value: Quantity | null | undefined): string {
  const whole = toBigInt(value);
  if (whole !== null)
    return new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(whole);
  return formatDecimal(typeof value === "number" ? value : null);
}

/** At most three digits that mean something: "0.25", "12.3", "1,234". */
export function formatDecimal(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  const maximumFractionDigits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return new Intl.NumberFormat(undefined, { maximumFractionDigits }).format(value);
}

/** Events per second, without the unit; the digits after the point are always as many, so that columns line up. */
export function formatRate(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return new Intl.NumberFormat(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(
    value,
  );
}

/** Milliseconds: "0.42 ms", "12.3 ms", "1.2 s". */
export function formatMs(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return Math.abs(value) < 1000 ? `${formatDecimal(value)} ms` : `${formatDecimal(value / 1000)} s`;
}

/** Seconds: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min", "4 d 3 h". */
export function formatSeconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value < 60) return `${formatDecimal(value < 10 ? value : Math.round(value))} s`;
  const whole = Math.round(value);
  const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = units.findIndex(([seconds]) => whole >= seconds);
  const [big, bigName] = units[first]!;
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % big) / next[0]) : 0;
  return `${Math.floor(whole / big)} ${bigName}${next && rest ? ` ${rest} ${next[1]}` : ""}`;
}

/** Bytes: "812 B", "1.2 kB", "3.4 MB". */
export function formatBytes(value: Quantity | null | undefined): string {
  const whole = toBigInt(value);
  if (whole === null) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = Number(whole); // only its first digits are shown
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${formatDecimal(size)} ${units[unit]}`;
}

/** A part of a whole in percent: "99.98 %". Never rounds up to 100 or down to 0 what is not. */
export function formatShare(part: Quantity, whole: Quantity): string {
  const [a, b] = [toBigInt(part), toBigInt(whole)];
  if (a === null || b === null || b === 0n) return NONE;
  const hundredths = (a * 10_000n) / b;
  if (a === b) return "100 %";
  if (a !== 0n && hundredths === 0n) return "< 0.01 %";
  return `${new Intl.NumberFormat(undefined, { minimumFractionDigits: 2 }).format(Number(hundredths) / 100)} %`;
}

/** Orders whole numbers however long they are; what is none comes first. */
export function compareQuantity(a: Quantity | null | undefined, b: Quantity | null | undefined): number {
  const [x, y] = [toBigInt(a), toBigInt(b)];
  if (x === null || y === null) return Number(x !== null) - Number(y !== null);
  return x < y ? -1 : x > y ? 1 : 0;
}
