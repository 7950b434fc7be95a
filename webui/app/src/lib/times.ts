/** Times for people: shown in the browser's zone, in UTC where one asks for it. */

const pad = (value: number, width = 2): string => String(value).padStart(width, "0");

/** "2026-03-04 15:06:07" in the browser's zone; "–" for none. */
export function formatTime(at: string | null | undefined, { ms = false } = {}): string {
  const date = parse(at);
  if (!date) return "–";
  return `${formatDay(date)} ${formatClock(date, ms)}`;
}

/** "15:06:07" today, with the date on other days. */
export function formatTimeShort(at: string | null | undefined, now: Date = new Date()): string {
  const date = parse(at);
  if (!date) return "–";
  return formatDay(date) === formatDay(now) ? formatClock(date, false) : formatTime(at);
}

/** "2026-03-04 14:06:07.123 UTC". */
export function formatUtc(at: string | null | undefined): string {
  const date = parse(at);
  return date ? `${date.toISOString().replace("T", " ").replace("Z", "")} UTC` : "–";
}

/** "12 s ago", "in 3 h": against `now`. */
export function formatAgo(at: string | null | undefined, now: number = Date.now()): string {
  const date = parse(at);
  if (!date) return "–";
  const seconds = Math.round((now - date.getTime()) / 1000);
  if (Math.abs(seconds) < 2) return "now";
  const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [size, name] = units.find(([each]) => Math.abs(seconds) >= each)!;
  const text = `${Math.floor(Math.abs(seconds) / size)} ${name}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** The name of the browser's time zone: "Europe/Rome". */
export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function parse(at: string | null | undefined): Date | null {
  if (!at) return null;
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? null : date;
}

function formatDay(date: Date): string {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

function formatClock(date: Date, ms: boolean): string {
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return ms ? `${clock}.${pad(date.getMilliseconds(), 3)}` : clock;
}
