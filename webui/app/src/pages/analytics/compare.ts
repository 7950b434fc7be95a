/** Which two runs are compared, and the lines of their comparison. */
import type { Run, Summary } from "../../api/analytics";
import { differenceOf, GROUPS, type Difference, type Figure, type FigureLine } from "./figures";

export interface ComparedLine {
  key: string;
  line: FigureLine;
  /** "broker alone" or "delivered", where a figure has both. */
  side: string | null;
  a: Figure;
  b: Figure;
  difference: Difference;
}

/** All figures of A beside those of B, group by group. */
export function compared(a: Summary, b: Summary): { title: string; lines: ComparedLine[] }[] {
  return GROUPS.map(({ title, lines }) => ({ title, lines: lines.flatMap((line) => sides(line, a, b)) }));
}

function sides(line: FigureLine, a: Summary, b: Summary): ComparedLine[] {
  const of = (key: string, side: string | null, value: (summary: Summary) => Figure): ComparedLine => {
    const values = { a: value(a), b: value(b) };
    return { key, line, side, ...values, difference: differenceOf(line, values.a, values.b) };
  };
  const delivered = of(line.key, line.raw ? "delivered" : null, line.delivered);
  return line.raw ? [of(`${line.key}_raw`, "broker alone", line.raw), delivered] : [delivered];
}

/** What was asked for where it is there; else B is the newest run, and A the newest other one, of the same traces if any. */
export function pairOf(
  done: readonly Run[],
  a: string | null,
  b: string | null,
): { a: Run | undefined; b: Run | undefined } {
  const find = (id: string | null): Run | undefined => done.find((run) => run.id === id);
  const [askedA, askedB] = [find(a), find(b)];
  const newestBut = (other: Run | undefined): Run | undefined => {
    const others = done.filter((run) => run !== other);
    return others.find((run) => run.source === other?.source) ?? others[0];
  };
  const second = askedB ?? newestBut(askedA);
  return { a: askedA ?? newestBut(second), b: second };
}
