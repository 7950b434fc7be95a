import { useId } from "react";
import type { Places } from "../../api/analytics";
import { Field, TextInput } from "../../components";
import { LOCAL_MASTER, sourcesOf, type JobForm, type Problems } from "./jobForm";

interface JobFieldsProps {
  form: JobForm;
  problems: Problems<JobForm>;
  places: Places | null;
  set: (changes: Partial<JobForm>) => void;
}

/** What an analysis reads and how. */
export function JobFields({ form, problems, places, set }: JobFieldsProps) {
  const [sources, masters] = [useId(), useId()];
  return (
    <>
      <Field label="Traces" hint={<AllowedHint places={places} />} error={problems.source}>
        <TextInput
          list={sources}
          value={form.source}
          maxLength={1024}
          onChange={(event) => set({ source: event.target.value })}
        />
      </Field>
      <Choices id={sources} of={sourcesOf(places)} />
      <div className="form-row">
        <Field label="Window (s)" hint="Charts have one value for each." error={problems.windowS}>
          <TextInput
            inputMode="decimal"
            value={form.windowS}
            onChange={(event) => set({ windowS: event.target.value })}
          />
        </Field>
        <Field label="Most pairs" hint="Of more pairs of subscribers a sample is compared." error={problems.maxPairs}>
          <TextInput
            inputMode="numeric"
            value={form.maxPairs}
            onChange={(event) => set({ maxPairs: event.target.value })}
          />
        </Field>
        <Field label="Spark master" hint={`${LOCAL_MASTER}: all processors here.`} error={problems.master}>
          <TextInput list={masters} value={form.master} onChange={(event) => set({ master: event.target.value })} />
        </Field>
      </div>
      <Choices id={masters} of={[LOCAL_MASTER, ...(places?.masters ?? [])]} />
      <Field
        label="Results as Parquet"
        hint="A folder or an address to write them to as well. Empty: none."
        error={problems.out}
      >
        <TextInput value={form.out} maxLength={1024} onChange={(event) => set({ out: event.target.value })} />
      </Field>
    </>
  );
}

/** Suggestions of a text field. */
function Choices({ id, of }: { id: string; of: readonly string[] }) {
  return (
    <datalist id={id}>
      {of.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}

function AllowedHint({ places }: { places: Places | null }) {
  if (places === null || places.traces.length === 0) return <>Where the traces are.</>;
  return (
    <>
      Allowed here, with all that is below: <code>{places.traces.join(", ")}</code>
    </>
  );
}
