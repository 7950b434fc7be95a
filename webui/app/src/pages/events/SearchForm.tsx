import { useState, type FormEvent } from "react";
import { api, type Page } from "../../api/client";
import type { Topic, TopicRef } from "../../api/types";
import { Button, Field, Select, TextInput, toast, topicText } from "../../components";
import { navigate } from "../../router";
import { problemsOf, queryOf, type Search } from "./search";
import { TopicField, topicOf } from "./TopicField";

type Texts = Record<"topic" | "number" | "client" | "incarnation" | "counter", string>;

const EMPTY: Texts = { topic: "", number: "", client: "", incarnation: "", counter: "" };

/** Asks for an event by its number or by its id; the search becomes the page's address. */
export function SearchForm({ search, topics }: { search: Search | null; topics: readonly Topic[] }) {
  const [by, setBy] = useState<Search["by"]>(search?.by ?? "number");
  const [texts, setTexts] = useState<Texts>({ ...EMPTY, ...search, topic: "" });
  const [problems, setProblems] = useState<Partial<Record<string, string>>>({});
  // What the address says is shown by name once the topics are there; what is typed is read when it is sent.
  const [isTyped, setTyped] = useState(false);
  const asked = search?.by === "number" ? topics.find(({ id }) => id === search.topic) : undefined;
  const topic = isTyped ? texts.topic : asked ? topicText(asked) : "";
  const set = (name: keyof Texts) => (text: string) => setTexts({ ...texts, [name]: text });

  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const trimmed = { ...texts, number: plain(texts.number), counter: plain(texts.counter) };
    const wanted: Search =
      by === "number"
        ? { by, topic: await idOf(topic, topics), number: trimmed.number }
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
    <form
      className="search-form"
      role="search"
      aria-label="Find an event"
      onSubmit={(event) => void send(event).catch(toast.error)}
    >
      <Field label="By">
        <Select value={by} onChange={(event) => setBy(event.target.value as Search["by"])}>
          <option value="number">Topic and number</option>
          <option value="id">Event id</option>
        </Select>
      </Field>
      {by === "number" ? (
        <>
          <TopicField
            topics={topics}
            value={topic}
            onChange={(text) => {
              setTyped(true);
              set("topic")(text);
            }}
            error={problems["topic"]}
          />
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

/** The id of a topic; one that is new, or of very many, is asked for. An empty text if there is none. */
async function idOf(text: string, topics: readonly TopicRef[]): Promise<string> {
  const known = topicOf(text, topics);
  if (known || text === "") return known?.id ?? "";
  const q = text.slice(text.indexOf(": ") + 1).trim();
  const { data } = await api.get<Page<Topic>>("/topics", { query: { q } });
  return topicOf(text, data.items)?.id ?? "";
}

/** Digits as people paste them: without grouping and blanks. */
function plain(text: string): string {
  return text.replace(/[\s,.’']/g, "");
}
