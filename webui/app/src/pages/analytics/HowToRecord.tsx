import type { Places } from "../../api/analytics";
import { EmptyState } from "../../components";

/** Nothing was analysed yet: how clients record what happens, and where analyses look for it. */
export function HowToRecord({ places }: { places: Places | null }) {
  const folder = places?.traces[0] ?? "traces";
  return (
    <EmptyState title="Nothing was analysed yet" icon="analytics">
      <span className="how-to">
        <span>
          First let clients record what happens to their events. Two that subscribe to the same topics are the least;
          the more record, publishers too, the more there is to tell.
        </span>
        <code>inorder sub stocks/# --traces {folder}</code>
        <code>inorder pub stocks/ACME 101.5 --traces {folder}</code>
        <code>{`inorder.Client(…, traces="${folder}")`}</code>
        <span>
          Then start an analysis here, or with <code>inorder analyze {folder}</code>.
        </span>
      </span>
    </EmptyState>
  );
}
