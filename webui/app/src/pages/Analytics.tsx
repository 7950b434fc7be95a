/** What jobs over recorded traces found out: their runs, one run, two runs side by side. */
import { ComparePage } from "./analytics/ComparePage";
import { RunPage } from "./analytics/RunPage";
import { RunsPage } from "./analytics/RunsPage";
import { withoutEndSlashes } from "../lib/paths";
import { useLocation } from "../router";
import "../styles/choices.css";
import "./analytics/analytics.css";

export default function Analytics() {
  const { path } = useLocation();
  const below = withoutEndSlashes(path).slice("/analytics/".length);
  if (below === "") return <RunsPage />;
  return below === "compare" ? <ComparePage /> : <RunPage key={below} id={decoded(below)} />;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
