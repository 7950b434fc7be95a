import type { Run } from "../../api/analytics";
import { StateBadge } from "../../components";
import { progressText } from "./runs";

/** How far a run is; without a step that is known the bar only says that it goes on. */
export function Progress({ run }: { run: Run }) {
  const { outcome, progress } = run;
  return (
    <span className="run-progress">
      <StateBadge state={outcome} />
      {outcome === "running" && (
        <progress
          aria-label={`Progress of ${run.source}`}
          {...(progress && { value: progress.step, max: progress.of })}
        />
      )}
      <span className="muted small">{progressText(run)}</span>
    </span>
  );
}
