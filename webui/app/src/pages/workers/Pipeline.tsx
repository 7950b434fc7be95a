import type { Stage, Worker } from "../../api/types";
import { Badge, Button, EmptyState, Icon, StateBadge } from "../../components";
import { formatCount, formatRate } from "../../lib/numbers";
import { followersOf, targetsOf, topDown } from "./pipeline";

interface PipelineProps {
  stages: readonly Stage[];
  workers: readonly Worker[];
  onMove: (stage: Stage) => void;
}

/** The belt, drawn as it runs: timestamps enter below and leave complete at the top. */
export function Pipeline({ stages, workers, onMove }: PipelineProps) {
  if (stages.length === 0) {
    return (
      <EmptyState title="There are no stages yet" icon="workers">
        The first worker makes them: <code>inorder worker --stages 3</code>
      </EmptyState>
    );
  }
  return (
    <div className="pipeline">
      <p className="pipeline-end">
        <Icon name="up" size={14} /> Timestamps are complete here, at the latest
      </p>
      <ol aria-label="Stages, the top one first">
        {topDown(stages).map((stage) => (
          <StageRow key={stage.stage} stage={stage} workers={workers} onMove={onMove} />
        ))}
      </ol>
      <p className="pipeline-end">
        <Icon name="up" size={14} /> New topics and whole subscriptions begin here, at the bottom
      </p>
    </div>
  );
}

function StageRow({
  stage,
  workers,
  onMove,
}: {
  stage: Stage;
  workers: readonly Worker[];
  onMove: (stage: Stage) => void;
}) {
  const owner = workers.find((each) => each.owner === stage.owner);
  return (
    <li className={`pipeline-stage pipeline-${stage.state}`}>
      <div className="stage-card">
        <h3 className="stage-name">Stage {stage.stage}</h3>
        <div className="stage-owner">
          <StateBadge state={stage.state} /> {owner?.name ?? stage.owner ?? "no owner"}
          <small>{stage.address ?? "no address"}</small>
        </div>
        <Figures stage={stage} />
        <div className="stage-move">
          <Button
            size="small"
            needs="operator"
            aria-label={`Move stage ${stage.stage}`}
            disabled={targetsOf(stage, workers).length === 0}
            title={targetsOf(stage, workers).length === 0 ? "There is no other worker that could take it." : undefined}
            onClick={() => onMove(stage)}
          >
            Move…
          </Button>
        </div>
        <Followers stage={stage} workers={workers} />
      </div>
    </li>
  );
}

function Figures({ stage }: { stage: Stage }) {
  const figures = [
    ["Epoch", formatCount(stage.epoch)],
    ["Journal row", formatCount(stage.row)],
    ["Topics", formatCount(stage.topics)],
    ["Timestamps/s", formatRate(stage.rate)],
  ] as const;
  return (
    <dl className="stage-figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Followers({ stage, workers }: { stage: Stage; workers: readonly Worker[] }) {
  const followers = followersOf(stage, workers);
  if (followers.length === 0) {
    return (
      <p className="stage-followers">
        <span className="tone-warn">No standby follows it: while its worker is down, its topics wait.</span>
      </p>
    );
  }
  return (
    <ul className="stage-followers" aria-label={`Workers that follow stage ${stage.stage}`}>
      {followers.map(({ worker, lag }) => (
        <li key={worker.owner}>
          {worker.name} <Badge tone={worker.state === "suspect" ? "warn" : "neutral"}>{lagText(lag)}</Badge>
        </li>
      ))}
    </ul>
  );
}

function lagText(lag: string | number | bigint): string {
  if (String(lag) === "0") return "up to date";
  return `${formatCount(lag)} ${String(lag) === "1" ? "row" : "rows"} behind`;
}
