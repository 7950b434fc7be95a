import { useId, useState } from "react";
import type { TopicRef } from "../../api/types";
import { Field, TextInput, topicText } from "../../components";

/** Suggestions that the browser gets; with more topics one types on. */
const MOST_SUGGESTIONS = 200;

interface TopicFieldProps {
  topics: readonly TopicRef[];
  /** The topic's id, or an empty text. */
  value: string;
  onChange: (id: string) => void;
  error?: string | undefined;
}

/** One of the topics, typed with suggestions. */
export function TopicField({ topics, value, onChange, error }: TopicFieldProps) {
  const list = useId();
  const [typed, setTyped] = useState<string | null>(null);
  const chosen = topics.find(({ id }) => id === value);
  const text = typed ?? (chosen ? topicText(chosen) : value && `topic ${value}`);
  const type = (next: string): void => {
    setTyped(next);
    onChange(topics.find((topic) => topicText(topic) === next || topic.name === next)?.id ?? "");
  };
  const words = text.toLocaleLowerCase();
  const suggested = topics.filter((topic) => topicText(topic).toLocaleLowerCase().includes(words));
  return (
    <div className="field-wide">
      <Field label="Topic" error={error}>
        <TextInput list={list} value={text} placeholder="space: name" onChange={(event) => type(event.target.value)} />
      </Field>
      <datalist id={list}>
        {suggested.slice(0, MOST_SUGGESTIONS).map((topic) => (
          <option key={topic.id} value={topicText(topic)} />
        ))}
      </datalist>
    </div>
  );
}
