/** Who is logged in. */
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { live } from "../live/store";
import { api, ApiError, setCsrf, setOnUnauthorized } from "./client";
import type { Role, Session } from "./types";

type Status =
  | { kind: "starting" }
  | { kind: "out"; reason: string | null }
  | { kind: "in"; session: Session }
  | { kind: "failed"; error: unknown };

interface SessionContext {
  status: Status;
  login: (token: string) => Promise<void>;
  logout: () => Promise<void>;
  retry: () => void;
}

const Context = createContext<SessionContext | null>(null);
const TOKEN_IN_ADDRESS = /^#token=(.+)$/;
const LADDER: readonly Role[] = ["viewer", "operator", "admin"];

/** Takes "#token=..." out of the address bar and the history; the token is not left lying about. */
export function takeTokenFromAddress(): string | null {
  const match = TOKEN_IN_ADDRESS.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(match[1]!);
  } catch {
    return match[1]!;
  }
}

async function begin(): Promise<Status> {
  const token = takeTokenFromAddress();
  try {
    const { data } = token ? await api.post<Session>("/session", { token }) : await api.get<Session>("/session");
    return { kind: "in", session: data };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      return { kind: "out", reason: token ? "The token in the link is not valid (any more)." : null };
    }
    return { kind: "failed", error };
  }
}

// Once per page load, however often React mounts: a token in the address can be taken only once.
let first: Promise<Status> | null = null;

export function SessionProvider({ children }: { children: ReactNode }) {
  const [status, setStatus] = useState<Status>({ kind: "starting" });

  const enter = useCallback((next: Status) => {
    setCsrf(next.kind === "in" ? next.session.csrf : null);
    if (next.kind === "in") live.start();
    else live.stop();
    setStatus(next);
  }, []);

  useEffect(() => {
    setOnUnauthorized(() => enter({ kind: "out", reason: "The session has ended. Log in again." }));
    first ??= begin();
    void first.then(enter);
    // The link with a token may be opened where the login already is: then only the address changes.
    const follow = (): void => {
      if (TOKEN_IN_ADDRESS.test(location.hash)) void begin().then(enter);
    };
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, [enter]);

  const value = useMemo<SessionContext>(
    () => ({
      status,
      login: async (token) => enter({ kind: "in", session: (await api.post<Session>("/session", { token })).data }),
      logout: async () => {
        await api.delete("/session").catch(() => undefined); // out is out, also when nobody answers
        enter({ kind: "out", reason: null });
      },
      retry: () => {
        setStatus({ kind: "starting" });
        void begin().then(enter);
      },
    }),
    [status, enter],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useSessionContext(): SessionContext {
  const context = useContext(Context);
  if (!context) throw new Error("outside of SessionProvider");
  return context;
}

/** The session; only inside the shell, where there is one. */
export function useSession(): Session {
  const { status } = useSessionContext();
  if (status.kind !== "in") throw new Error("nobody is logged in");
  return status.session;
}

/** True if `role` includes what `needed` may do. */
export function includes(role: Role, needed: Role): boolean {
  return LADDER.indexOf(role) >= LADDER.indexOf(needed);
}

/** True if the operator may do what `needed` may. */
export function useCan(needed: Role): boolean {
  const status = useContext(Context)?.status;
  return status?.kind === "in" && includes(status.session.role, needed);
}
