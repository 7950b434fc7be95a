import { useState } from "react";
import { useList } from "../../api/hooks";
import type { AuditEntry } from "../../api/types";
import {
  timeColumn,
  Card,
  DataTable,
  Dialog,
  EmptyState,
  Facts,
  Loaded,
  StateBadge,
  Time,
  type Column,
} from "../../components";

/** Every change with who and what, also the refused ones. */
export function AuditTab() {
  const entries = useList<AuditEntry>("/audit");
  const [open, setOpen] = useState<AuditEntry | null>(null);
  return (
    <Card title="Audit log" hint="Changes through this console, the API and the command line, the newest first." flush>
      <Loaded resource={entries}>
        {(data) => (
          <DataTable
            name="audit entries"
            columns={COLUMNS}
            rows={data.items}
            total={data.total}
            rowKey={({ id }) => id}
            onOpen={setOpen}
            empty={
              <EmptyState title="Nobody has changed anything yet">
                What is changed is listed here, with who did it.
              </EmptyState>
            }
          />
        )}
      </Loaded>
      {open && <EntryDialog entry={open} onClose={() => setOpen(null)} />}
    </Card>
  );
}

const COLUMNS: Column<AuditEntry>[] = [
  { key: "action", title: "Action", value: ({ action }) => action },
  { key: "target", title: "On", value: ({ target }) => target },
  timeColumn("at", "Time", ({ at }) => at),
  { key: "who", title: "Who", value: ({ who }) => who },
  { key: "role", title: "Role", value: ({ role }) => role },
  { key: "via", title: "Via", value: ({ via }) => via },
  {
    key: "outcome",
    title: "Outcome",
    value: ({ outcome }) => outcome,
    render: ({ outcome }) => <StateBadge state={outcome} />,
  },
];

function EntryDialog({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  return (
    <Dialog title={entry.action} onClose={onClose}>
      <Facts
        items={[
          ["On", entry.target || "–"],
          ["Time", <Time key="at" at={entry.at} ms />],
          ["Who", `${entry.who}, as ${entry.role}`],
          ["Via", entry.via],
          ["Outcome", <StateBadge key="outcome" state={entry.outcome} />],
        ]}
      />
      <pre className="payload">{JSON.stringify(entry.detail, null, 2)}</pre>
    </Dialog>
  );
}
