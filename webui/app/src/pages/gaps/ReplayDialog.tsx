import { part } from "../../api/client";
import { useResource } from "../../api/hooks";
import type { LoggedEvent, StuckNumber } from "../../api/types";
import { DataTable, Dialog, EmptyState, EventLink, Loaded, Time, topicText, type Column } from "../../components";
import { toBigInt } from "../../lib/numbers";

const AROUND = 20n;
const LIMIT = 50;

interface Log {
  items: LoggedEvent[];
  first: string | null;
  last: string | null;
}

/** What the event log of the topic has around a stuck number. */
export function ReplayDialog({ row, onClose }: { row: StuckNumber; onClose: () => void }) {
  const start = BigInt(row.first) > AROUND ? BigInt(row.first) - AROUND : 1n;
  const log = useResource<Log>(`/topics/${part(row.topic.id)}/log`, { query: { from: String(start), limit: LIMIT } });
  return (
    <Dialog title={`Event log of ${topicText(row.topic)}`} wide onClose={onClose}>
      <Loaded resource={log}>
        {(data) => (
          <DataTable
            name="logged events"
            columns={columnsOf(row)}
            rows={data.items}
            rowKey={({ number }) => number}
            pageSize={20}
            empty={
              <EmptyState title="The log has nothing here">
                {data.first === null ? "It is empty." : `It has numbers ${data.first} to ${data.last}.`}
              </EmptyState>
            }
          />
        )}
      </Loaded>
    </Dialog>
  );
}

function columnsOf({ topic }: StuckNumber): Column<LoggedEvent>[] {
  return [
    {
      key: "number",
      title: "Number",
      value: ({ number }) => toBigInt(number),
      render: ({ number }) => <EventLink topic={topic} number={number} />,
    },
    {
      key: "stored",
      title: "Stored",
      csvTitle: "Stored (UTC)",
      value: ({ stored_at }) => stored_at,
      render: ({ stored_at }) => <Time at={stored_at} ms />,
    },
    { key: "payload", title: "Payload", value: (event) => event.payload_text ?? event.payload_base64 },
  ];
}
