import type { Overview } from "../../api/types";
import { formatCount } from "../../lib/numbers";
import { Link } from "../../router";

const LINES: readonly [keyof Overview["counts"], string, string][] = [
  ["topics", "Topics", "/topics"],
  ["clients", "Clients", "/subscriptions"],
  ["subscriptions", "Subscriptions", "/subscriptions"],
  ["stages", "Stages", "/workers"],
  ["workers", "Workers", "/workers"],
];

/** How much there is of everything; each leads to its page. */
export function Counts({ counts }: { counts: Overview["counts"] }) {
  return (
    <ul className="counts">
      {LINES.map(([key, label, path]) => (
        <li key={key}>
          <Link to={path} className="count-link">
            <b className="num">{formatCount(counts[key])}</b> {label}
          </Link>
        </li>
      ))}
    </ul>
  );
}
