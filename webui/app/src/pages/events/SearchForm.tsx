import { useState, type FormEvent } from "react";
import type { Topic } from "../../api/types";
import { Button, Field, Select, TextInput } from "../../components";
import { navigate } from "../../router";
import { problemsOf, queryOf, type Search } from "./search";
import { TopicField } from "./TopicField";

type Texts = Record<"topic" | "number" | "client" | "incarnation" | "counter", string>;

const EMPTY: Texts = { topic: "", number: "", client: "", incarnation: "", counter: "" };

/** Asks for an event by its number or by its id; the search becomes the page's address. */
export function SearchForm({ search, topics }: { search: Search | null; topics: readonly Topic[] }) {
  const [by, setBy] = useState<Search["by"]>(search?.by ?? "number");
  const [texts, setTexts] = useState<Texts>({ ...EMPTY, ...search });
  const [problems, setProblems] = useState<Partial<Record<string, string>>>({});
  const set = (name: keyof Texts) => (text: string) => setTexts({ ...texts, [name]: text });

  const send = (event: FormEvent): void => {
    event.preventDefault();
    const trimmed = { ...texts, number: plain(texts.number), counter: plain(texts.counter) };
    const wanted: Search =
      by === "number"
        ? { by, topic: trimmed.topic, number: trimmed.number }
        : { by, client: trimmed.client, incarnation: plain(trimmed.incarnation), counter: trimmed.counter };
    const found = problemsOf(wanted);
    setProblems(found);
    if (Object.keys(found).length === 0) navigate(`/events?${queryOf(wanted)}`);
  };

  const input = (name: "number" | "client" | "incarnation" | "counter", label: string) => (
    <Field label={label} error={problems[name]}>
      <TextInput
        inputMode={name === "client" ? "text" : "numeric"}
        value={texts[name]}
        onChange={(event) => set(name)(event.target.value)}
      />
    </Field>
  );

  return (
    <form className="search-form" role="search" aria-label="Find an event" onSubmit={send}>
      <Field label="By">
        <Select value={by} onChange={(event) => setBy(event.target.value as Search["by"])}>
          <option value="number">Topic and number</option>
          <option value="id">Event id</option>
        </Select>
      </Field>
      {by === "number" ? (
        <>
          <TopicField topics={topics} value={texts.topic} onChange={set("topic")} error={problems["topic"]} />
          {input("number", "Number")}
        </>
      ) : (
        <>
          {input("client", "Client")}
          {input("incarnation", "Incarnation")}
          {input("counter", "Counter")}
        </>
      )}
      <div className="field-end">
        <Button type="submit" variant="primary" icon="search">
          Find
        </Button>
      </div>
    </form>
  );
}

/** Digits as people paste them: without grouping and blanks. */
function plain(text: string): string {
  return text.replace(/[\s,.’']/g, "");
}
