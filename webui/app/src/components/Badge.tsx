import type { ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

export type Tone = "neutral" | "ok" | "warn" | "bad" | "info" | "accent";

export function Badge({ tone = "neutral", icon, children }: { tone?: Tone; icon?: IconName; children: ReactNode }) {
  return (
    <span className={`badge badge-${tone}`}>
      {icon && <Icon name={icon} size={12} />}
      {children}
    </span>
  );
}

/** Words for states of numbers, stages, workers, runs and commands, and how they look. */
const TONES: Record<string, Tone> = {
  ok: "ok",
  active: "ok",
  confirmed: "ok",
  delivered: "ok",
  in_order: "ok",
  done: "ok",
  connected: "ok",
  standby: "info",
  pending: "info",
  started: "info",
  handover: "info",
  claim: "neutral",
  void: "neutral",
  retained: "neutral",
  unsequenced: "neutral",
  duplicate: "neutral",
  draining: "warn",
  suspect: "warn",
  late: "warn",
  degraded: "warn",
  away: "warn",
  takeover: "warn",
  abandoned: "warn",
  expired: "warn",
  unknown: "warn",
  refused: "bad",
  lost: "bad",
  dead: "bad",
  down: "bad",
  failed: "bad",
};

export function StateBadge({ state }: { state: string }) {
  return <Badge tone={TONES[state] ?? "neutral"}>{state.replaceAll("_", " ")}</Badge>;
}
