import { useId, useState } from "react";
import { api } from "../../api/client";
import { useList } from "../../api/hooks";
import type { Topic, TopicDetail } from "../../api/types";
import { Button, Field, FormDialog, TextInput, toast, topicText } from "../../components";
import { setQuery } from "../../router";

/** The button and its dialog. */
export function CreateTopic() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button variant="primary" icon="plus" needs="operator" onClick={() => setOpen(true)}>
        Create topic
      </Button>
      {isOpen && <CreateDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const known = useList<Topic>("/topics");
  const spaces = [...new Set(known.data?.items.map(({ space }) => space))].sort();
  const [space, setSpace] = useState<string | null>(null);
  const [name, setName] = useState("");
  const chosen = space ?? spaces[0] ?? "";
  const list = useId();

  const create = async (): Promise<void> => {
    const { data } = await api.post<TopicDetail>("/topics", { space: chosen, name });
    toast.ok(`${topicText(data)} is there, last in the order.`);
    setQuery({ topic: data.id }, { replace: false });
  };

  return (
    <FormDialog
      title="Create a topic"
      submit="Create topic"
      onClose={onClose}
      onSubmit={create}
      disabled={!chosen || !name}
    >
      <p className="muted">
        Publishing to a new topic creates it too. By hand you can pin it or give it an event log before the first event.
      </p>
      <Field
        label="Space"
        hint="Brokers that are bridged share one; without a setting it is the scheme of the broker's address, such as mqtt."
      >
        <TextInput list={list} value={chosen} onChange={(event) => setSpace(event.target.value)} required />
      </Field>
      <datalist id={list}>
        {spaces.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <Field label="Name" hint="As publishers write it, without wildcards.">
        <TextInput value={name} onChange={(event) => setName(event.target.value)} required autoFocus />
      </Field>
    </FormDialog>
  );
}
