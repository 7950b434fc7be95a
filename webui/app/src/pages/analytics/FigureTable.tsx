import type { Summary } from "../../api/analytics";
import { Banner, Card } from "../../components";
import { toneOf, verdictOf, type Figure, type FigureGroup, type FigureLine } from "./figures";

/** The figures of one group; where there are both, what the broker brought beside what was delivered. */
export function FigureCard({ group, summary, hint }: { group: FigureGroup; summary: Summary; hint?: string }) {
  const hasRaw = group.lines.some(({ raw }) => raw !== undefined);
  return (
    <Card title={group.title} hint={hint} flush>
      <table className="table figure-table" aria-label={group.title}>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            {hasRaw && (
              <th scope="col" className="end">
                Broker alone
              </th>
            )}
            <th scope="col" className="end">
              {hasRaw ? "Delivered" : "Value"}
            </th>
          </tr>
        </thead>
        <tbody>
          {group.lines.map((line) => (
            <FigureRow key={line.key} line={line} summary={summary} hasRaw={hasRaw} />
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function FigureRow({ line, summary, hasRaw }: { line: FigureLine; summary: Summary; hasRaw: boolean }) {
  const delivered = line.delivered(summary);
  return (
    <tr>
      <td className="lead">
        <FigureName line={line} />
      </td>
      {hasRaw && (
        <td className="end" data-label="Broker alone">
          {line.raw ? line.format(line.raw(summary)) : ""}
        </td>
      )}
      <td className="end" data-label={hasRaw ? "Delivered" : "Value"}>
        <FigureValue line={line} value={delivered} />
      </td>
    </tr>
  );
}

export function FigureName({ line }: { line: FigureLine }) {
  return (
    <>
      {line.label} <span className="figure-meaning">{line.meaning}</span>
    </>
  );
}

export function FigureValue({ line, value }: { line: FigureLine; value: Figure }) {
  const tone = toneOf(line, value);
  return <b className={tone ? `tone-${tone}` : undefined}>{line.format(value)}</b>;
}

/** Whether the order held, and what it would have been. */
export function VerdictBanner({ summary }: { summary: Summary }) {
  const { tone, title, text } = verdictOf(summary);
  return (
    <Banner tone={tone}>
      <p>
        <b>{title}.</b> {text}
      </p>
    </Banner>
  );
}
