import { useState, type ChangeEvent } from "react";
import { api, explain } from "../../api/client";
import { Banner, Button, Card, Field, FormDialog, TextArea, toast } from "../../components";
import { csvName, download } from "../../lib/csv";

/** The topic order, pins, event logs and automatic mode as one file: to keep, or to carry to another cluster. */
export function DefinitionsTab() {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [plan, setPlan] = useState<{ definitions: unknown; answer: unknown } | null>(null);
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
      const { data } = await api.post<unknown>("/definitions", definitions, { query: { dry_run: true } });
      setPlan({ definitions, answer: data });
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
        hint="Topic order, pins, event logs and automatic mode. Neither events nor tokens are in it."
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
      {plan && <ImportDialog plan={plan} onClose={() => setPlan(null)} />}
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

function ImportDialog({ plan, onClose }: { plan: { definitions: unknown; answer: unknown }; onClose: () => void }) {
  const apply = async (): Promise<void> => {
    await api.post("/definitions", plan.definitions, { query: { dry_run: false } });
    toast.ok("The definitions are imported.");
  };
  return (
    <FormDialog title="What the import changes" submit="Import" wide onClose={onClose} onSubmit={apply}>
      <Banner tone="info">This was a dry run; nothing has changed yet.</Banner>
      <pre className="payload">{JSON.stringify(plan.answer, null, 2)}</pre>
    </FormDialog>
  );
}
