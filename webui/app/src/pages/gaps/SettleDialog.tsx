import { useState } from "react";
import { api } from "../../api/client";
import type { StuckNumber, Topic } from "../../api/types";
import { Banner, Facts, FormDialog, TopicName, toast } from "../../components";
import { formatCount, formatSeconds } from "../../lib/numbers";
import { consequenceOf, countOf, type Action } from "./consequence";

const WAYS: readonly { action: Action; name: string; hint: string }[] = [
  { action: "abandoned", name: "As abandoned", hint: "Nobody knows whether it was published. Applications are told." },
  { action: "void", name: "As void", hint: "It was certainly never published. Nobody is told." },
];

interface SettleDialogProps {
  row: StuckNumber;
  action: Action;
  topic: Topic | undefined;
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

/** Says what releasing or repairing means, and does it. */
export function SettleDialog({ row, action: first, topic, onClose, onDone }: SettleDialogProps) {
  const [action, setAction] = useState<Action>(first);
  const consequence = consequenceOf(action, row);
  const settle = async (): Promise<void> => {
    const range = { topic: row.topic.id, first: row.first, last: row.last };
    if (action === "repair") await api.post("/gaps/repair", range);
    else await api.post("/gaps/release", { ...range, as: action });
    toast.ok(`${consequence.title}: done.`);
    await onDone();
  };
  return (
    <FormDialog
      title={consequence.title}
      submit={consequence.button}
      danger={action !== "repair"}
      onClose={onClose}
      onSubmit={settle}
    >
      <Facts
        items={[
          ["Topic", <TopicName key="topic" topic={row.topic} />],
          ["Numbers", formatCount(countOf(row))],
          ["Publisher", row.client ?? "not known"],
          ["Why it is stuck", `${row.reason}, for ${formatSeconds(row.age_s)}`],
          ["Subscribers that wait", formatCount(topic?.subscribers)],
        ]}
      />
      {action !== "repair" && <Ways chosen={action} onChoose={setAction} />}
      <ul className="consequence" aria-live="polite">
        {consequence.sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      {consequence.isRisky && (
        <Banner tone="warn">Be sure that the publisher did not publish it. This cannot be undone.</Banner>
      )}
    </FormDialog>
  );
}

function Ways({ chosen, onChoose }: { chosen: Action; onChoose: (action: Action) => void }) {
  return (
    <fieldset className="choices">
      <legend className="visually-hidden">How it is released</legend>
      {WAYS.map(({ action, name, hint }) => (
        <label key={action} className="choice">
          <input type="radio" name="way" value={action} checked={chosen === action} onChange={() => onChoose(action)} />
          <span>
            <span className="choice-name">{name}</span>
            <span className="choice-hint">{hint}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
