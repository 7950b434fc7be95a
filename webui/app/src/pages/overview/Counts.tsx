import type { Overview } from "../../api/types";
import { formatCount } from "../../lib/numbers";
import { Link } from "../../router";

const LINES: readonly [keyof Overview["counts"], string, string, string][] = [
  ["topics", "topic", "topics", "/topics"],
  ["clients", "client", "clients", "/subscriptions"],
  ["subscriptions", "subscription", "subscriptions", "/subscriptions"],
  ["stages", "stage", "stages", "/workers"],
  ["workers", "worker", "workers", "/workers"],
];

/** How much there is of everything; each leads to its page. */
export function Counts({ counts }: { counts: Overview["counts"] }) {
  return (
    <ul className="counts">
      {LINES.map(([key, one, many, path]) => (
        <li key={key}>
          <Link to={path} className="count-link">
            <b className="num">{formatCount(counts[key])}</b> {counts[key] === 1 ? one : many}
          </Link>
        </li>
      ))}
    </ul>
  );
}
