import { useRef, useState, type KeyboardEvent } from "react";
import type { Overlap } from "../../api/types";
import type { Pair } from "./OverlapCard";
import { heat, HEAT_STEPS, hottestOf, shortened } from "./overlap";

const NAME_LENGTH = 22;
const STEPS: Record<string, readonly [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The matrix as a grid: one stop for the Tab key, arrow keys move inside, Enter opens a pair. */
export function HeatTable({ overlap, onOpen }: { overlap: Overlap; onOpen: (pair: Pair) => void }) {
  const { clients, matrix } = overlap;
  const [at, setAt] = useState<Pair>({ a: 0, b: 1 });
  const table = useRef<HTMLTableElement>(null);
  const hottest = hottestOf(matrix);

  const move = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const next = { a: within(at.a + step[0], clients.length), b: within(at.b + step[1], clients.length) };
    setAt(next);
    table.current?.querySelector<HTMLElement>(`[data-cell="${next.a} ${next.b}"]`)?.focus();
  };

  return (
    <>
      <div className="heat-scroll">
        <table
          className="heat-table"
          role="grid"
          aria-label="Topics shared by two clients"
          ref={table}
          onKeyDown={move}
        >
          <thead>
            <tr>
              <td />
              {clients.map((client) => (
                <th key={client} scope="col" title={client}>
                  <span className="heat-column">{shortened(client, NAME_LENGTH)}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {clients.map((client, a) => (
              <tr key={client}>
                <th scope="row" title={client}>
                  {shortened(client, NAME_LENGTH)}
                </th>
                {clients.map((other, b) => (
                  <HeatCell
                    key={other}
                    pair={{ a, b }}
                    names={[client, other]}
                    shared={matrix[a]?.[b] ?? 0}
                    hottest={hottest}
                    isCurrent={at.a === a && at.b === b}
                    onFocus={setAt}
                    onOpen={onOpen}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Legend hottest={hottest} />
    </>
  );
}

const within = (at: number, count: number): number => Math.max(0, Math.min(count - 1, at));

interface HeatCellProps {
  pair: Pair;
  names: [string, string];
  shared: number;
  hottest: number;
  isCurrent: boolean;
  onFocus: (pair: Pair) => void;
  onOpen: (pair: Pair) => void;
}

function HeatCell({ pair, names, shared, hottest, isCurrent, onFocus, onOpen }: HeatCellProps) {
  const isOwn = pair.a === pair.b;
  const [one, other] = names;
  const topics = shared === 1 ? "1 topic" : `${shared} topics`;
  const label = isOwn ? `${one} reads ${topics}` : `${one} and ${other} share ${topics}`;
  const open = (): void => {
    if (!isOwn) onOpen(pair);
  };
  return (
    <td
      role="gridcell"
      data-cell={`${pair.a} ${pair.b}`}
      className={isOwn ? "heat-own" : `heat-${heat(shared, hottest)}`}
      aria-label={label}
      title={label}
      tabIndex={isCurrent ? 0 : -1}
      onFocus={() => onFocus(pair)}
      onClick={open}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      }}
    >
      {shared}
    </td>
  );
}

function Legend({ hottest }: { hottest: number }) {
  return (
    <p className="heat-legend" aria-hidden="true">
      nothing shared
      {Array.from({ length: HEAT_STEPS + 1 }, (_, step) => (
        <i key={step} className={`heat-${step}`} />
      ))}
      {hottest}
    </p>
  );
}
