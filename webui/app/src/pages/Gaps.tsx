/** Numbers that are stuck: what they hold back, and what can be done about it. */
import { useState } from "react";
import { useList } from "../api/hooks";
import type { StuckNumber, Topic } from "../api/types";
import { Banner, Card, EmptyState, Loaded, PageFrame } from "../components";
import type { Action } from "./gaps/consequence";
import { GapTable } from "./gaps/GapTable";
import { ReplayDialog } from "./gaps/ReplayDialog";
import { SettleDialog } from "./gaps/SettleDialog";
import "../styles/choices.css";

const EVERY_MS = 2000;

export default function Gaps() {
  const stuck = useList<StuckNumber>("/gaps", { everyMs: EVERY_MS });
  const topics = useList<Topic>("/topics");
  const [settling, setSettling] = useState<{ row: StuckNumber; action: Action } | null>(null);
  const [replaying, setReplaying] = useState<StuckNumber | null>(null);
  const byId = new Map(topics.data?.items.map((topic) => [topic.id, topic]));
  return (
    <PageFrame
      title="Gaps"
      lead="A number that was given but not confirmed holds back what comes after it, at every strict subscriber of its topic. Most settle by themselves."
    >
      <Card title="Stuck numbers" flush>
        <Loaded resource={stuck}>
          {(data) => (
            <GapTable
              rows={data.items}
              total={data.total}
              topics={byId}
              onSettle={(row, action) => setSettling({ row, action })}
              onReplay={setReplaying}
              empty={
                <EmptyState title="Nothing is stuck" icon="ok">
                  Every number that was given is confirmed or settled. A publisher that hangs or dies with an open event
                  shows up here a second later.
                </EmptyState>
              }
            />
          )}
        </Loaded>
      </Card>
      <Card title="How numbers settle by themselves">
        <ul className="consequence">
          <li>A publisher that comes back confirms its events, or says that it never handed them over.</li>
          <li>
            Without a publisher a number is abandoned after <code>publisher_grace</code>, 10 s by default: subscribers
            go on, and report a gap.
          </li>
          <li>
            With a publisher that neither confirms nor gives up, after <code>confirm_timeout</code>, 60 s by default.
          </li>
        </ul>
      </Card>
      {topics.error !== null && (
        <Banner tone="warn">How many subscribers wait cannot be told: the topics could not be read.</Banner>
      )}
      {settling && (
        <SettleDialog
          row={settling.row}
          action={settling.action}
          topic={byId.get(settling.row.topic.id)}
          onClose={() => setSettling(null)}
          onDone={stuck.reload}
        />
      )}
      {replaying && <ReplayDialog row={replaying} onClose={() => setReplaying(null)} />}
    </PageFrame>
  );
}
