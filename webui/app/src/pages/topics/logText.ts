import type { LogBounds } from "../../api/types";
import { formatBytes, formatCount, formatSeconds } from "../../lib/numbers";

/** What an event log keeps, in words: "7 d, 100,000 events"; 0 is no bound. */
export function logText({ max_age_s, max_count, max_bytes }: LogBounds): string {
  const bounds = [
    max_age_s > 0 && formatSeconds(max_age_s),
    max_count > 0 && `${formatCount(max_count)} events`,
    max_bytes > 0 && formatBytes(max_bytes),
  ];
  return bounds.filter(Boolean).join(", ") || "without bounds";
}
