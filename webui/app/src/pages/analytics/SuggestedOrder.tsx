import type { SuggestedOrder as Order } from "../../api/analytics";
import { Card } from "../../components";
import { formatCount } from "../../lib/numbers";
import { Link } from "../../router";

/** Topics of a stage that are named; the others are counted. */
const NAMED = 12;

/** Where popularity would put the topics, and which changes of place R15 proposes. */
export function SuggestedOrder({ orders, run }: { orders: readonly Order[]; run: string | null }) {
  const shown = orders.filter((each) => each.suggested !== null && (run === null || each.run === run));
  return (
    <>
      {shown.map((order) => (
        <Card
          key={order.run}
          title={shown.length > 1 ? `Suggested topic order, run ${order.run}` : "Suggested topic order"}
          hint="popular topics higher up: their timestamps visit fewer stages"
          actions={
            <Link className="btn btn-default btn-small" to="/topics?view=order">
              Change the order
            </Link>
          }
        >
          <ol className="suggested">
            {order.suggested!.map((topics, stage) => (
              <li key={stage}>
                <b>Stage {stage}</b> <Names topics={topics} />
              </li>
            ))}
          </ol>
          <Swaps swaps={order.swaps ?? []} />
        </Card>
      ))}
    </>
  );
}

function Names({ topics }: { topics: readonly string[] }) {
  if (topics.length === 0) return <span className="muted">empty</span>;
  const more = topics.length - NAMED;
  return (
    <span className="suggested-topics" title={more > 0 ? topics.join("\n") : undefined}>
      {topics.slice(0, NAMED).map((topic) => (
        <span key={topic} className="suggested-topic">
          {topic}
        </span>
      ))}
      {more > 0 && <span className="muted">and {formatCount(more)} more</span>}
    </span>
  );
}

function Swaps({ swaps }: { swaps: readonly (readonly [string, string])[] }) {
  if (swaps.length === 0) {
    return <p className="muted small">From the present order no change of place is worth it (alpha 0.1, beta 0.2).</p>;
  }
  return (
    <>
      <p className="small">From the present order these change places (alpha 0.1, beta 0.2):</p>
      <ul className="consequence small">
        {swaps.map(([higher, lower]) => (
          <li key={`${higher}\n${lower}`}>
            {lower} goes up, {higher} down
          </li>
        ))}
      </ul>
    </>
  );
}
