import { useState } from "react";
import type { Overlap } from "../../api/types";
import type { Pair } from "./OverlapCard";
import { circle, edges, hottestOf, shortened, type Edge, type Point } from "./overlap";

const RADIUS = 200;
const LABEL_GAP = 16;
const NAME_LENGTH = 18;
const VIEW = { width: 760, height: 500 };
const WIDEST = 9;

/** Clients on a circle, a line where two share topics, the thicker the more. The matrix says the same to those who
 *  cannot see it. */
export function OverlapGraph({ overlap, onOpen }: { overlap: Overlap; onOpen: (pair: Pair) => void }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const points = circle(overlap.clients.length, RADIUS);
  const lines = edges(overlap.matrix);
  const hottest = hottestOf(overlap.matrix);
  return (
    <>
      <svg
        className="overlap-graph"
        viewBox={`${-VIEW.width / 2} ${-VIEW.height / 2} ${VIEW.width} ${VIEW.height}`}
        role="group"
        aria-label="Clients that share topics"
      >
        {lines.map((edge) => (
          <Line
            key={`${edge.a} ${edge.b}`}
            edge={edge}
            points={points}
            hottest={hottest}
            chosen={chosen}
            onOpen={onOpen}
          />
        ))}
        {overlap.clients.map((client, at) => (
          <Node
            key={client}
            client={client}
            point={points[at]!}
            partners={lines.filter(({ a, b }) => a === at || b === at).length}
            isDimmed={chosen !== null && chosen !== at && !isTied(lines, chosen, at)}
            onChoose={(is) => setChosen(is ? at : null)}
          />
        ))}
      </svg>
      <p className="card-hint">
        Solid lines: two or more shared topics, which cost sequencing. Faint lines: one shared topic, which costs none.
      </p>
    </>
  );
}

function isTied(lines: readonly Edge[], one: number, other: number): boolean {
  return lines.some(({ a, b }) => (a === one && b === other) || (a === other && b === one));
}

interface LineProps {
  edge: Edge;
  points: readonly Point[];
  hottest: number;
  chosen: number | null;
  onOpen: (pair: Pair) => void;
}

function Line({ edge, points, hottest, chosen, onOpen }: LineProps) {
  const [one, other] = [points[edge.a]!, points[edge.b]!];
  const isOff = chosen !== null && edge.a !== chosen && edge.b !== chosen;
  const tone = isOff ? "edge-off" : edge.shared > 1 ? "edge-hot" : "";
  return (
    <line
      className={`edge ${tone}`}
      x1={one.x}
      y1={one.y}
      x2={other.x}
      y2={other.y}
      strokeWidth={1 + ((WIDEST - 1) * edge.shared) / hottest}
      onClick={() => onOpen({ a: edge.a, b: edge.b })}
    />
  );
}

interface NodeProps {
  client: string;
  point: Point;
  partners: number;
  isDimmed: boolean;
  onChoose: (is: boolean) => void;
}

function Node({ client, point, partners, isDimmed, onChoose }: NodeProps) {
  const shift = point.anchor === "middle" ? 0 : point.anchor === "start" ? LABEL_GAP : -LABEL_GAP;
  const lift = point.anchor === "middle" ? Math.sign(point.y) * (LABEL_GAP + 6) : 0;
  const label = `${client}: shares topics with ${partners} others`;
  return (
    <g
      role="img"
      aria-label={label}
      tabIndex={0}
      onFocus={() => onChoose(true)}
      onBlur={() => onChoose(false)}
      onMouseEnter={() => onChoose(true)}
      onMouseLeave={() => onChoose(false)}
    >
      <title>{label}</title>
      <circle className={isDimmed ? "node node-off" : "node"} cx={point.x} cy={point.y} r={8} />
      <text x={point.x + shift} y={point.y + lift} textAnchor={point.anchor} dominantBaseline="middle">
        {shortened(client, NAME_LENGTH)}
      </text>
    </g>
  );
}
