import type { Whole } from "../../api/analytics";
import { Card, Facts } from "../../components";
import { formatCount, toBigInt } from "../../lib/numbers";

/** What each reason of a gap says. */
const MEANING: Readonly<Record<string, string>> = {
  abandoned: "given up, since their publisher was gone or did not confirm",
  lost: "confirmed, never arrived, and in no event log",
  skipped: "jumped over by a subscriber that waits for a bounded time",
  expired: "older than what is kept, or of a subscription that had ended",
  unstamped: "arrived without their timestamps",
  overflow: "given up by a subscriber that was too slow",
};

/** Numbers that subscribers were told to be missing, by reason. */
export function GapFigures({ gaps }: { gaps: Readonly<Record<string, Whole>> }) {
  const reasons = Object.entries(gaps).filter(([, count]) => toBigInt(count) !== 0n);
  if (reasons.length === 0) return null;
  return (
    <Card title="Gaps" hint="numbers that subscribers were told to be missing, all subscribers together">
      <Facts
        items={reasons.map(([reason, count]) => [
          reason,
          <span key={reason}>
            <b>{formatCount(count)}</b> <span className="muted">{MEANING[reason]}</span>
          </span>,
        ])}
      />
    </Card>
  );
}
