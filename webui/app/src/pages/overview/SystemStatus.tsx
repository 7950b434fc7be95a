import type { SystemState } from "../../api/types";
import { Badge, type IconName, type Tone } from "../../components";

const WORDS: Record<SystemState, { tone: Tone; icon: IconName; text: string }> = {
  ok: { tone: "ok", icon: "ok", text: "Order holds" },
  degraded: { tone: "warn", icon: "warning", text: "Degraded" },
  down: { tone: "bad", icon: "error", text: "Down" },
};

/** The state of the whole system in two words. */
export function SystemStatus({ state }: { state: SystemState }) {
  const { tone, icon, text } = WORDS[state];
  return (
    <span className="system-status" role="status">
      <Badge tone={tone} icon={icon}>
        {text}
      </Badge>
    </span>
  );
}
