import { useEffect, useState, type FormEvent } from "react";
import { ApiError, explain } from "./api/client";
import { useSessionContext } from "./api/session";
import { Button } from "./components/Button";
import { Field, TextInput } from "./components/forms";
import { Banner } from "./components/notices";

/** Asks for a token. */
export function Login({ reason }: { reason: string | null }) {
  const { login } = useSessionContext();
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Log in · inorder";
  }, []);

  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await login(token.trim());
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  return (
    <main className="gate">
      <form className="card gate-card form" onSubmit={(event) => void send(event)}>
        <header>
          <h1>inorder</h1>
          <p className="muted">Log in with a token of a viewer, an operator or an admin.</p>
        </header>
        {reason && error === null && <Banner tone="info">{reason}</Banner>}
        {error !== null && <Banner tone="bad">{loginProblem(error)}</Banner>}
        <Field
          label="Token"
          hint={
            <>
              <code>inorder up</code> prints one as a link at its first start; <code>inorder tokens</code> makes more.
            </>
          }
        >
          <TextInput
            type="password"
            name="token"
            autoComplete="current-password"
            autoFocus
            required
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </Field>
        <Button type="submit" variant="primary" busy={busy}>
          Log in
        </Button>
      </form>
    </main>
  );
}

function loginProblem(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) return "This token is wrong, expired or revoked.";
  if (error instanceof ApiError && error.status === 403)
    return "This token is for clients; the console needs one of a viewer, an operator or an admin.";
  return explain(error);
}
