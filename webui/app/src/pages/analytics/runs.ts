/** What a run of an analysis is to those who look at it. */
import type { Run } from "../../api/analytics";
import { withoutEndSlashes } from "../../lib/paths";
import { formatTime } from "../../lib/times";

export const isOpen = ({ outcome }: Run): boolean => outcome === "queued" || outcome === "running";

/** "step 3 of 12: pairs of subscribers"; a run that waits or does not tell says so. */
export function progressText({ outcome, progress, cancelled_by }: Run): string {
  if (cancelled_by !== null) return `being cancelled by ${cancelled_by}`;
  if (outcome === "queued") return "waits for its turn";
  if (progress === null) return "starting Spark";
  return `step ${progress.step} of ${progress.of}: ${progress.what}`;
}

/** The last part of a path, for narrow places. */
export function shortSource(source: string): string {
  const parts = withoutEndSlashes(source).split("/");
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : source;
}

/** At most two runs are chosen to be compared; a third takes the place of the one that was chosen first. */
export function choose(chosen: readonly string[], id: string): string[] {
  return chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen.slice(-1), id];
}

/** When a schedule is due, as the viewer reads it and in UTC: in Rome "2026-03-02 04:00 (03:00 UTC)". */
export function dueText(at: string): string {
  const here = formatTime(at).slice(0, 16);
  const utc = new Date(at).toISOString().slice(0, 16).replace("T", " ");
  const isSameDay = here.slice(0, 10) === utc.slice(0, 10);
  return `${here} (${isSameDay ? utc.slice(11) : utc} UTC)`;
}
