import type { Run, RunDetail } from "../../api/analytics";
import { part } from "../../api/client";
import { useList, useResource } from "../../api/hooks";
import { Button, Card, EmptyState, Facts, Field, Loaded, PageFrame, Select, Time } from "../../components";
import { formatCount } from "../../lib/numbers";
import { formatTime } from "../../lib/times";
import { Link, setQuery, useLocation } from "../../router";
import { compared, pairOf, type ComparedLine } from "./compare";
import { FigureName, VerdictBanner } from "./FigureTable";
import { ComparedCharts } from "./WindowCharts";
import { newestRun } from "./windows";

/** Two runs side by side. */
export function ComparePage() {
  const runs = useList<Run>("/analytics/runs", { query: { sort: "-queued_at" } });
  return (
    <PageFrame title="Two analyses" lead={<Link to="/analytics">All runs and schedules</Link>}>
      <Loaded resource={runs}>
        {({ items }) => <Choice done={items.filter(({ outcome }) => outcome === "done")} />}
      </Loaded>
    </PageFrame>
  );
}

function Choice({ done }: { done: readonly Run[] }) {
  const { query } = useLocation();
  const { a, b } = pairOf(done, query.get("a"), query.get("b"));
  if (!a || !b) {
    return (
      <Card>
        <EmptyState title="There are not two runs to compare" icon="analytics">
          Figures can be compared as soon as two analyses are <Link to="/analytics">done</Link>.
        </EmptyState>
      </Card>
    );
  }
  return (
    <>
      <Card>
        <div className="compare-choice">
          <RunSelect label="A" runs={done} value={a.id} onChange={(id) => setQuery({ a: id, b: b.id })} />
          <RunSelect label="B" runs={done} value={b.id} onChange={(id) => setQuery({ a: a.id, b: id })} />
          <span className="field-end">
            <Button onClick={() => setQuery({ a: b.id, b: a.id })}>Swap A and B</Button>
          </span>
        </div>
      </Card>
      <Both key={`${a.id} ${b.id}`} a={a.id} b={b.id} />
    </>
  );
}

interface RunSelectProps {
  label: string;
  runs: readonly Run[];
  value: string;
  onChange: (id: string) => void;
}

function RunSelect({ label, runs, value, onChange }: RunSelectProps) {
  return (
    <Field label={label}>
      <Select value={value} onChange={(event) => onChange(event.target.value)}>
        {runs.map(({ id, source, queued_at }) => (
          <option key={id} value={id}>
            {formatTime(queued_at)} · {source}
          </option>
        ))}
      </Select>
    </Field>
  );
}

function Both({ a, b }: { a: string; b: string }) {
  const first = useResource<RunDetail>(`/analytics/runs/${part(a)}`);
  const second = useResource<RunDetail>(`/analytics/runs/${part(b)}`);
  return (
    <Loaded resource={first} lines={8}>
      {(left) => <Loaded resource={second}>{(right) => <Comparison a={left} b={right} />}</Loaded>}
    </Loaded>
  );
}

function Comparison({ a, b }: { a: RunDetail; b: RunDetail }) {
  if (!a.result || !b.result) return <EmptyState title="One of the two has no result" icon="analytics" />;
  const runs = [newestRun(a.result.by_window) ?? "", newestRun(b.result.by_window) ?? ""] as const;
  return (
    <>
      <div className="pair-of-cards">
        <RunCard letter="A" run={a} />
        <RunCard letter="B" run={b} />
      </div>
      {compared(a.result, b.result).map(({ title, lines }) => (
        <Card key={title} title={title} flush>
          <ComparedTable title={title} lines={lines} />
        </Card>
      ))}
      <ComparedCharts a={a.result} b={b.result} runs={runs} />
    </>
  );
}

function RunCard({ letter, run }: { letter: string; run: RunDetail }) {
  const { result, queued_at, source } = run;
  return (
    <Card title={letter} actions={<Link to={`/analytics/${run.id}`}>Open</Link>}>
      <div className="compare-card">
        {result && <VerdictBanner summary={result} />}
        <Facts
          items={[
            ["Traces", source],
            ["Asked for", <Time key="at" at={queued_at} />],
            ["Events", formatCount(result?.events)],
            ["Subscribers", formatCount(result?.subscribers)],
          ]}
        />
      </div>
    </Card>
  );
}

function ComparedTable({ title, lines }: { title: string; lines: readonly ComparedLine[] }) {
  return (
    <table className="table figure-table" aria-label={title}>
      <thead>
        <tr>
          <th scope="col">Figure</th>
          <th scope="col" className="end">
            A
          </th>
          <th scope="col" className="end">
            B
          </th>
          <th scope="col" className="end">
            B against A
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ key, line, side, a, b, difference }) => (
          <tr key={key}>
            <td className="lead">
              <FigureName line={side === null ? line : { ...line, label: `${line.label}, ${side}` }} />
            </td>
            <td className="end" data-label="A">
              {line.format(a)}
            </td>
            <td className="end" data-label="B">
              {line.format(b)}
            </td>
            <td className="end" data-label="B against A">
              <b className={difference.tone ? `tone-${difference.tone}` : undefined}>{difference.text}</b>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
