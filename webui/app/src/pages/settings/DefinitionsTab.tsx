import { useState, type ChangeEvent } from "react";
import { api, explain } from "../../api/client";
import { Banner, Button, Card, Dialog, Field, FormDialog, TextArea, toast, topicText } from "../../components";
import { csvName, download } from "../../lib/csv";
import { changesOf, type ImportPlan, type TopicAddress } from "./importPlan";

/** What was tried out: the definitions, and what they would change. */
interface Tried {
  definitions: unknown;
  plan: ImportPlan;
}

/** The topic order, pins, event logs and schedules of analyses as one file: to keep, or to carry to another cluster. */
export function DefinitionsTab() {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [plan, setPlan] = useState<Tried | null>(null);
  const [busy, setBusy] = useState(false);

  const exportAll = async (): Promise<void> => {
    try {
      const { data } = await api.get<unknown>("/definitions");
      const name = csvName("definitions").replace(/\.csv$/, ".json");
      download(name, `${JSON.stringify(data, null, 2)}\n`, "application/json");
    } catch (error) {
      toast.error(error);
    }
  };

  const tryOut = async (): Promise<void> => {
    setProblem(null);
    const definitions = parsed(text);
    if (definitions === undefined) {
      setProblem("This is no JSON.");
      return;
    }
    setBusy(true);
    try {
      const { data } = await api.post<ImportPlan>("/definitions", definitions, { query: { dry_run: true } });
      setPlan({ definitions, plan: data });
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div className="page-body">
      <Card
        title="Export"
        hint="Topic order, pins, event logs and schedules of analyses, by their names. Neither events nor tokens are in it."
        actions={
          <Button icon="download" onClick={() => void exportAll()}>
            Export as JSON
          </Button>
        }
      >
        <p className="muted">Keep it with your configuration; it can be imported here or with the API.</p>
      </Card>
      <Card title="Import" hint="First it is tried out: you see what would change before anything does.">
        <form
          className="form"
          onSubmit={(event) => {
            event.preventDefault();
            void tryOut();
          }}
        >
          <Field label="File">
            <FileInput onText={setText} />
          </Field>
          <Field label="Definitions (JSON)" error={problem}>
            <TextArea className="mono" rows={8} value={text} onChange={(event) => setText(event.target.value)} />
          </Field>
          <div className="dialog-actions">
            <Button type="submit" needs="admin" busy={busy} disabled={text.trim() === ""}>
              Try it out
            </Button>
          </div>
        </form>
      </Card>
      {plan && <ImportDialog tried={plan} onClose={() => setPlan(null)} />}
    </div>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function FileInput({ onText, ...rest }: { onText: (text: string) => void }) {
  const read = (event: ChangeEvent<HTMLInputElement>): void => {
    const file = event.target.files?.[0];
    if (file) void file.text().then(onText, toast.error);
  };
  return <input {...rest} type="file" className="input" accept="application/json,.json" onChange={read} />;
}

function ImportDialog({ tried, onClose }: { tried: Tried; onClose: () => void }) {
  const { definitions, plan } = tried;
  const changes = changesOf(plan);
  const apply = async (): Promise<void> => {
    await api.post("/definitions", definitions, { query: { dry_run: false } });
    toast.ok("The definitions are imported.");
  };
  if (changes.length === 0) {
    return (
      <Dialog title="Nothing would change" onClose={onClose}>
        <p>Everything that the file says is so already. What it does not name stays as it is.</p>
      </Dialog>
    );
  }
  return (
    <FormDialog title="What the import changes" submit="Import" onClose={onClose} onSubmit={apply}>
      <ul className="consequence">
        {changes.map(({ what, topics }) => (
          <li key={what}>
            {what}
            {topics && topics.length > 0 && <span className="muted">: {listed(topics)}</span>}
          </li>
        ))}
      </ul>
      <Banner tone="info">
        This was a dry run; nothing has changed yet. What the file does not name stays as it is.
      </Banner>
    </FormDialog>
  );
}

const NAMES_SHOWN = 10;

function listed(topics: readonly TopicAddress[]): string {
  const shown = topics.slice(0, NAMES_SHOWN).map(topicText).join(", ");
  return topics.length > NAMES_SHOWN ? `${shown} and ${topics.length - NAMES_SHOWN} more` : shown;
}
