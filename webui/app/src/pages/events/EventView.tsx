import type { EventDetail } from "../../api/types";
import {
  Button,
  Card,
  DataTable,
  EventLink,
  Facts,
  Payload,
  StateBadge,
  Time,
  TopicName,
  topicText,
  type Column,
} from "../../components";
import { formatCount, formatMs, toBigInt } from "../../lib/numbers";
import { placed, STATE_MEANING, type Placed } from "./life";

/** One event: what it is, its life, what it waited for. */
export function EventView({ event, onReload }: { event: EventDetail; onReload: () => void }) {
  return (
    <>
      <div className="split">
        <Card
          title={`${topicText(event.topic)}, number ${formatCount(event.number)}`}
          actions={<Button size="small" icon="refresh" iconOnly aria-label="Read again" onClick={onReload} />}
        >
          <Facts items={factsOf(event)} />
          <h3 className="payload-title">Payload</h3>
          <Payload text={event.payload_text} base64={event.payload_base64} />
        </Card>
        <Card
          title="Its life"
          hint="As its clients told it, in the time of the worker. Of a busy topic they tell of a sample."
        >
          <Life steps={placed(event.life)} />
        </Card>
      </div>
      <Card
        title="What comes before it"
        hint="Its timestamp: everything up to these numbers is delivered before it, to each subscriber that has the topic."
        flush
      >
        <DataTable
          name="dependencies"
          columns={DEPENDENCIES}
          rows={event.dependencies}
          rowKey={({ topic }) => topic.id}
          empty={
            <p className="notice">
              Only the event before it in its own topic: no other topic shared two subscribers with it.
            </p>
          }
        />
      </Card>
    </>
  );
}

function factsOf(event: EventDetail) {
  return [
    ["Topic", <TopicName key="topic" topic={event.topic} link />],
    [
      "State",
      <span key="state">
        <StateBadge state={event.state} /> <span className="small muted">{STATE_MEANING[event.state]}</span>
      </span>,
    ],
    ["Publisher", event.client ?? "not known any more"],
    ["Waiting", event.waiting.length > 0 ? `${event.waiting.join(", ")} (as they say)` : "nobody for long"],
    ["Event id", event.counter === null ? "–" : `incarnation ${event.incarnation}, counter ${event.counter}`],
    [
      "Event log",
      event.logged ? (
        <span key="log">
          has it since <Time at={event.stored_at} ms />
        </span>
      ) : (
        "does not have it"
      ),
    ],
  ] as const;
}

function Life({ steps }: { steps: readonly Placed[] }) {
  if (steps.length === 0) return <p className="muted">The workers have forgotten when what happened.</p>;
  return (
    <ol className="life">
      {steps.map(({ step, sinceMs }, at) => (
        <li key={at} className={`life-step ${toneOf(step.what)}`}>
          <span className="life-since">{sinceMs === null ? "" : `+ ${formatMs(sinceMs)}`}</span>
          <div>
            <p className="life-what">
              {step.what.replaceAll("_", " ")}
              {step.who && <span className="muted"> · {step.who}</span>}
            </p>
            <p className="life-detail">
              <Time at={step.at} ms />
            </p>
            {step.detail && <p className="life-detail">{step.detail.replace("in_order", "in order")}</p>}
          </div>
        </li>
      ))}
    </ol>
  );
}

function toneOf(what: string): string {
  if (what.includes("lost")) return "life-step-bad";
  return what.includes("abandoned") || what.includes("void") ? "life-step-warn" : "";
}

type Dependency = EventDetail["dependencies"][number];

const DEPENDENCIES: Column<Dependency>[] = [
  {
    key: "topic",
    title: "Topic",
    value: ({ topic }) => topicText(topic),
    render: ({ topic }) => <TopicName topic={topic} link />,
  },
  {
    key: "number",
    title: "Number",
    value: ({ number }) => toBigInt(number),
    render: ({ topic, number }) => <EventLink topic={topic} number={number} />,
    align: "end",
  },
  { key: "state", title: "State", value: ({ state }) => state, render: ({ state }) => <StateBadge state={state} /> },
];
