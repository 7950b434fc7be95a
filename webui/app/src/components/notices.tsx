/** What stands where data is not (yet): empty, failed, loading. */
import type { ReactNode } from "react";
import { ApiError, explain } from "../api/client";
import type { Resource } from "../api/hooks";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";

/** Nothing is there; the children say what to do about it. */
export function EmptyState(props: { title: string; icon?: IconName; children?: ReactNode; action?: ReactNode }) {
  const { title, icon = "empty", children, action } = props;
  return (
    <div className="notice">
      <Icon name={icon} size={28} />
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Something could not be read; says what happened and offers another try. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const isProblem = error instanceof ApiError;
  return (
    <div className="notice notice-bad" role="alert">
      <Icon name="error" size={28} />
      <h2>{isProblem ? error.title : "Something went wrong"}</h2>
      <p>{isProblem ? error.detail : explain(error)}</p>
      {onRetry && (
        <Button icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

const BANNER_ICONS = { ok: "ok", info: "info", warn: "warning", bad: "error" } as const;

/** A message in the flow of a page. */
export function Banner({
  tone,
  children,
  action,
}: {
  tone: "ok" | "info" | "warn" | "bad";
  children: ReactNode;
  action?: ReactNode;
}) {
  const icon = BANNER_ICONS[tone];
  return (
    <div className={`banner banner-${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={icon} />
      <div className="banner-text">{children}</div>
      {action}
    </div>
  );
}

export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <div key={line} className="skeleton" />
      ))}
    </div>
  );
}

interface LoadedProps<T> {
  resource: Resource<T>;
  lines?: number;
  children: (data: T) => ReactNode;
}

/** The children once there is data; until then a skeleton or the error. Stale data stays, with a banner that says so. */
export function Loaded<T>({ resource, lines, children }: LoadedProps<T>) {
  const { data, error, reload } = resource;
  if (data === null) {
    return error ? <ErrorState error={error} onRetry={() => void reload()} /> : <Skeleton lines={lines ?? 4} />;
  }
  return (
    <>
      {error !== null && <Banner tone="warn">What you see is not current: {explain(error)}</Banner>}
      {children(data)}
    </>
  );
}
