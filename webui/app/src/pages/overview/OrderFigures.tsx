import type { Overview, TotalName } from "../../api/types";
import { Card, Stat } from "../../components";
import { formatCount, formatRate, formatShare, toBigInt } from "../../lib/numbers";
import { useLive } from "../../live/store";

interface Figure {
  key: TotalName;
  label: string;
  /** How it looks while it is rising. */
  rising?: "warn" | "bad";
  /** What it counts. */
  title: string;
}

const FIGURES: readonly Figure[] = [
  { key: "timestamps", label: "Timestamps", title: "Numbers given to events" },
  { key: "delivered", label: "Delivered", title: "Events that applications were notified of" },
  { key: "late", label: "Late", rising: "warn", title: "Delivered after a later event or its gap, and tagged as such" },
  { key: "gaps", label: "Gaps", rising: "warn", title: "Numbers reported as missing" },
  { key: "lost", label: "Lost", rising: "bad", title: "Confirmed, never arrived, and in no event log" },
  { key: "duplicates", label: "Duplicates", title: "Repetitions that never reached an application" },
];

/** In order, late, gaps and duplicates: how many, and how fast they rise now. */
export function OrderFigures({ overview }: { overview: Overview }) {
  const totals = useLive((state) => state.totals) ?? overview.totals;
  const rates = useLive((state) => state.rates) ?? overview.rates;
  const share = inOrderShare(totals.in_order, totals.delivered);
  return (
    <Card className="figures-card">
      <div className="figures">
        <Stat
          label="In order"
          value={share}
          tone={share === "100 %" ? "ok" : undefined}
          hint={`${formatCount(totals.in_order)} events`}
        />
        {FIGURES.map(({ key, label, rising, title }) => {
          const rate = rates[key];
          return (
            <div key={key} title={title}>
              <Stat
                label={label}
                value={formatCount(totals[key])}
                tone={rising && rate !== null && rate > 0 ? rising : undefined}
                hint={`${formatRate(rate)} /s`}
              />
            </div>
          );
        })}
      </div>
    </Card>
  );
}

/** The part of what was delivered that came in order; nothing delivered has no share. */
export function inOrderShare(inOrder: string | null, delivered: string | null): string {
  if (inOrder === null || delivered === null || toBigInt(delivered) === 0n) return "–";
  return formatShare(inOrder, delivered);
}
