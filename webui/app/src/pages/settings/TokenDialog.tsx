import { useState } from "react";
import { api } from "../../api/client";
import { Field, FormDialog, TextArea, TextInput } from "../../components";
import {
  EMPTY_FORM,
  requestOf,
  ROLE_MEANING,
  ROLES,
  type IssuedToken,
  type Problems,
  type TokenForm,
} from "./tokenForm";

interface TokenDialogProps {
  onClose: () => void;
  onMade: (token: IssuedToken) => Promise<void>;
}

/** Asks what a new token may do, and makes it. */
export function TokenDialog({ onClose, onMade }: TokenDialogProps) {
  const [form, setForm] = useState<TokenForm>(EMPTY_FORM);
  const [problems, setProblems] = useState<Problems>({});
  const set = (changes: Partial<TokenForm>): void => setForm({ ...form, ...changes });

  const make = async (): Promise<void> => {
    const wanted = requestOf(form);
    setProblems("problems" in wanted ? wanted.problems : {});
    if ("problems" in wanted) throw new Error("Some of this is not right; see above.");
    const { data } = await api.post<IssuedToken>("/tokens", wanted.request);
    await onMade(data);
  };

  return (
    <FormDialog title="New token" submit="Make the token" wide onClose={onClose} onSubmit={make}>
      <div className="form-row">
        <Field label="Name" hint="Who or what it is for." error={problems.name}>
          <TextInput value={form.name} maxLength={128} onChange={(event) => set({ name: event.target.value })} />
        </Field>
        <Field label="Expires after (days)" hint="Empty: never." error={problems.days}>
          <TextInput inputMode="numeric" value={form.days} onChange={(event) => set({ days: event.target.value })} />
        </Field>
      </div>
      <Roles chosen={form.role} onChoose={(role) => set({ role })} />
      {form.role === "client" && <ClientLimits form={form} problems={problems} set={set} />}
    </FormDialog>
  );
}

function Roles({ chosen, onChoose }: { chosen: TokenForm["role"]; onChoose: (role: TokenForm["role"]) => void }) {
  return (
    <fieldset className="choices">
      <legend className="field-label">Role</legend>
      {ROLES.map((role) => (
        <label key={role} className="choice">
          <input type="radio" name="role" value={role} checked={role === chosen} onChange={() => onChoose(role)} />
          <span>
            <span className="choice-name">{role}</span>
            <span className="choice-hint">{ROLE_MEANING[role]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface ClientLimitsProps {
  form: TokenForm;
  problems: Problems;
  set: (changes: Partial<TokenForm>) => void;
}

function ClientLimits({ form, problems, set }: ClientLimitsProps) {
  return (
    <>
      <div className="form-row">
        <Field
          label="May publish to"
          hint="One space:filter a line, as in mqtt:stocks/#. Empty: everything."
          error={problems.publish}
        >
          <TextArea value={form.publish} onChange={(event) => set({ publish: event.target.value })} />
        </Field>
        <Field label="May subscribe to" hint="One space:filter a line. Empty: everything." error={problems.subscribe}>
          <TextArea value={form.subscribe} onChange={(event) => set({ subscribe: event.target.value })} />
        </Field>
      </div>
      <Field
        label="Most unconfirmed numbers of a session"
        hint="A client that takes numbers and confirms none holds everybody back; this bounds it. Empty: no limit."
        error={problems.mostUnconfirmed}
      >
        <TextInput
          inputMode="numeric"
          value={form.mostUnconfirmed}
          onChange={(event) => set({ mostUnconfirmed: event.target.value })}
        />
      </Field>
      <Field
        label="Most topics that it makes"
        hint="Together with all tokens of its name; topics that have ended do not count. Empty: as the workers are set."
        error={problems.mostTopics}
      >
        <TextInput
          inputMode="numeric"
          value={form.mostTopics}
          onChange={(event) => set({ mostTopics: event.target.value })}
        />
      </Field>
      <Field
        label="Most durable subscriptions"
        hint="At a time, together with all tokens of its name; they stay while their clients are away. Empty: as the workers are set."
        error={problems.mostSubscriptions}
      >
        <TextInput
          inputMode="numeric"
          value={form.mostSubscriptions}
          onChange={(event) => set({ mostSubscriptions: event.target.value })}
        />
      </Field>
    </>
  );
}
