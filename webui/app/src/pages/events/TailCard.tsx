import { useEffect, useMemo, useReducer, useRef, useState } from "react";
import { API, withQuery } from "../../api/client";
import type { TailMessage, Topic } from "../../api/types";
import { Badge, Banner, Button, Card, EventLink, Field, TextInput, topicText } from "../../components";
import { csvName, download, toCsv } from "../../lib/csv";
import { formatBytes, formatCount } from "../../lib/numbers";
import { formatTime, formatUtc } from "../../lib/times";
import { LiveSocket, type SocketState } from "../../live/socket";
import { EMPTY, KEPT, step, type Row, type Tail, type TailEvent } from "./tail";

/** How often what came is drawn; a busy topic has thousands of events in a second. */
const DRAW_MS = 250;

interface Wanted {
  space: string;
  filter: string;
}

/** Events as they pass. It subscribes with ordering none, so it is in nobody's sequencing group. */
export function TailCard({ topics }: { topics: readonly Topic[] }) {
  const [space, setSpace] = useState<string | null>(null);
  const [filter, setFilter] = useState("#");
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const [tail, happen] = useReducer(step, EMPTY);
  const chosenSpace = space ?? topics[0]?.space ?? "mqtt";
  const link = useTail(wanted, happen);

  return (
    <Card
      title="Live tail"
      hint="As the broker delivers, in no order of ours. Watching costs nobody anything."
      actions={<Actions tail={tail} isRunning={wanted !== null} onHappening={happen} />}
      flush
    >
      <form
        className="search-form tail-form"
        aria-label="Live tail"
        onSubmit={(event) => {
          event.preventDefault();
          happen({ type: "clear" });
          setWanted(wanted ? null : { space: chosenSpace, filter });
        }}
      >
        <Field label="Space">
          <TextInput
            value={chosenSpace}
            disabled={wanted !== null}
            onChange={(event) => setSpace(event.target.value)}
          />
        </Field>
        <div className="field-wide">
          <Field label="Filter">
            <TextInput
              value={filter}
              required
              disabled={wanted !== null}
              onChange={(event) => setFilter(event.target.value)}
            />
          </Field>
        </div>
        <div className="field-end">
          <Button type="submit" variant={wanted ? "default" : "primary"} icon={wanted ? "close" : "play"}>
            {wanted ? "Stop" : "Start"}
          </Button>
        </div>
      </form>
      <TailState tail={tail} link={link} isRunning={wanted !== null} />
      <Rows rows={tail.rows} topics={topics} />
    </Card>
  );
}

/** The connection behind a tail, while one is wanted. What comes is handed on a few times a second. */
function useTail(wanted: Wanted | null, happen: (what: Parameters<typeof step>[1]) => void): SocketState {
  const [link, setLink] = useState<SocketState>("closed");
  const waiting = useRef<TailEvent[]>([]);
  useEffect(() => {
    if (!wanted) return undefined;
    waiting.current = [];
    const socket = new LiveSocket<TailMessage>(
      `${API}${withQuery("/tail", { ...wanted })}`,
      {
        onMessage: (message) => {
          if (message.type === "event") waiting.current.push(message);
          else if (message.type === "dropped") happen({ type: "dropped", count: message.count });
        },
        onState: setLink,
      },
      null,
    );
    const timer = setInterval(() => {
      if (waiting.current.length > 0) happen({ type: "events", events: waiting.current.splice(0) });
    }, DRAW_MS);
    return () => {
      clearInterval(timer);
      socket.close();
    };
  }, [wanted, happen]);
  return link;
}

interface ActionsProps {
  tail: Tail;
  isRunning: boolean;
  onHappening: (what: Parameters<typeof step>[1]) => void;
}

function Actions({ tail, isRunning, onHappening }: ActionsProps) {
  const exportCsv = (): void => {
    const rows = tail.rows.map((row) => [row.at, topicText(row.topic), row.number, row.late, row.size, textOf(row)]);
    download(csvName("tail"), toCsv(["time (UTC)", "topic", "number", "late", "bytes", "payload"], rows));
  };
  return (
    <span className="row-actions">
      <Button
        size="small"
        icon={tail.isPaused ? "play" : "pause"}
        disabled={!isRunning}
        aria-pressed={tail.isPaused}
        onClick={() => onHappening({ type: tail.isPaused ? "resume" : "pause" })}
      >
        {tail.isPaused ? "Go on" : "Pause"}
      </Button>
      <Button size="small" disabled={tail.rows.length === 0} onClick={() => onHappening({ type: "clear" })}>
        Clear
      </Button>
      <Button size="small" icon="download" disabled={tail.rows.length === 0} onClick={exportCsv}>
        CSV
      </Button>
    </span>
  );
}

function TailState({ tail, link, isRunning }: { tail: Tail; link: SocketState; isRunning: boolean }) {
  const facts = [
    tail.rows.length === KEPT && `the newest ${formatCount(KEPT)} are kept`,
    tail.passed > 0 && `${formatCount(tail.passed)} passed while paused`,
    tail.dropped > 0 && `${formatCount(tail.dropped)} left out by the server, too fast to follow`,
  ].filter(Boolean);
  return (
    <div className="tail-state" role="status">
      {isRunning && link === "lost" && (
        <Banner tone="warn">
          The tail does not run; another try is under way. If it stays so: is a broker configured for this space
          (setting <code>controlplane.brokers</code>), does it run, and does it take this filter?
        </Banner>
      )}
      {(isRunning || tail.rows.length > 0) && (
        <p className="card-hint">
          {stateWord(link, isRunning, tail)}
          {facts.length > 0 && ` – ${facts.join("; ")}`}
        </p>
      )}
    </div>
  );
}

function stateWord(link: SocketState, isRunning: boolean, tail: Tail): string {
  if (!isRunning) return "Stopped.";
  if (link === "connecting") return "Connecting …";
  if (tail.isPaused) return "Paused.";
  return tail.rows.length === 0 ? "Waiting for the first event …" : "Running, the newest first.";
}

function Rows({ rows, topics }: { rows: readonly Row[]; topics: readonly Topic[] }) {
  const known = useMemo(() => new Map(topics.map((topic) => [topicText(topic), topic])), [topics]);
  if (rows.length === 0) return null;
  return (
    <ol className="tail" aria-label="Events, the newest first" tabIndex={0}>
      {rows.map((row) => (
        <li key={row.key} className="tail-row">
          <time dateTime={row.at} title={formatUtc(row.at)}>
            {formatClock(row.at)}
          </time>
          <span className="tail-topic">{row.topic.name}</span>
          <TailNumber row={row} topic={known.get(topicText(row.topic))} />
          <span className="tail-payload">{textOf(row)}</span>
          <span className="tail-size">{formatBytes(row.size)}</span>
        </li>
      ))}
    </ol>
  );
}

function TailNumber({ row, topic }: { row: Row; topic: Topic | undefined }) {
  if (row.number === null) return <Badge>no number</Badge>;
  return (
    <span>
      {topic ? <EventLink topic={topic} number={row.number} /> : <span className="num">{formatCount(row.number)}</span>}{" "}
      {row.late && (
        <span title="A higher number of the topic had come from the broker before.">
          <Badge tone="warn">late</Badge>
        </span>
      )}
      {row.retained && <Badge>retained</Badge>}
    </span>
  );
}

/** The time of day, with milliseconds. */
function formatClock(at: string): string {
  return formatTime(at, { ms: true }).split(" ").at(-1) ?? "";
}

function textOf(row: Row): string {
  return `${row.payload_text ?? row.payload_base64 ?? ""}${row.truncated ? " …" : ""}`;
}
