import { useId } from "react";
import type { TopicRef } from "../../api/types";
import { Field, TextInput, topicText } from "../../components";

/** Suggestions that the browser gets; with more topics one types on. */
const MOST_SUGGESTIONS = 200;

/** The topic that a text names: "space: name", or a name alone. */
export function topicOf(text: string, topics: readonly TopicRef[]): TopicRef | undefined {
  return topics.find((topic) => topicText(topic) === text) ?? topics.find((topic) => topic.name === text);
}

interface TopicFieldProps {
  topics: readonly TopicRef[];
  value: string;
  onChange: (text: string) => void;
  error?: string | undefined;
}

/** One of the topics, typed with suggestions. */
export function TopicField({ topics, value, onChange, error }: TopicFieldProps) {
  const list = useId();
  const words = value.toLocaleLowerCase();
  const suggested = topics.filter((topic) => topicText(topic).toLocaleLowerCase().includes(words));
  return (
    <div className="field-wide">
      <Field label="Topic" error={error}>
        <TextInput
          list={list}
          value={value}
          placeholder="space: name"
          onChange={(event) => onChange(event.target.value)}
        />
      </Field>
      <datalist id={list}>
        {suggested.slice(0, MOST_SUGGESTIONS).map((topic) => (
          <option key={topic.id} value={topicText(topic)} />
        ))}
      </datalist>
    </div>
  );
}
