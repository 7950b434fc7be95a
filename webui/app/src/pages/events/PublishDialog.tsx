import { useState } from "react";
import { api } from "../../api/client";
import type { TopicRef } from "../../api/types";
import { Field, FormDialog, Select, TextArea, TextInput, toast } from "../../components";
import { formatCount } from "../../lib/numbers";
import { navigate } from "../../router";
import { queryOf } from "./search";

const SPACE = "mqtt";

/** Publishes one event through the control plane's own client, and opens it. */
export function PublishDialog({ topics, onClose }: { topics: readonly TopicRef[]; onClose: () => void }) {
  const [space, setSpace] = useState(topics[0]?.space ?? SPACE);
  const [topic, setTopic] = useState("");
  const [payload, setPayload] = useState("");
  const [qos, setQos] = useState("1");
  const publish = async (): Promise<void> => {
    const body = { space, topic, payload, qos: Number(qos) };
    const { data } = await api.post<{ topic: TopicRef; number: string }>("/events", body);
    toast.ok(`Published as number ${formatCount(data.number)}.`);
    navigate(`/events?${queryOf({ by: "number", topic: data.topic.id, number: data.number })}`);
  };
  return (
    <FormDialog
      title="Publish a test event"
      submit="Publish"
      disabled={topic === ""}
      onClose={onClose}
      onSubmit={publish}
    >
      <p className="muted">
        It goes through the broker to every subscriber of the topic, in total order, like any other event.
      </p>
      <div className="form-row">
        <Field label="Space">
          <TextInput required value={space} onChange={(event) => setSpace(event.target.value)} />
        </Field>
        <Field label="Quality of service" hint="0: at most once; 1: at least once; 2: exactly once.">
          <Select value={qos} onChange={(event) => setQos(event.target.value)}>
            {["0", "1", "2"].map((each) => (
              <option key={each}>{each}</option>
            ))}
          </Select>
        </Field>
      </div>
      <Field label="Topic" hint="A new topic is made if there is none of this name.">
        <TextInput required value={topic} onChange={(event) => setTopic(event.target.value)} />
      </Field>
      <Field label="Payload">
        <TextArea value={payload} onChange={(event) => setPayload(event.target.value)} />
      </Field>
    </FormDialog>
  );
}
