import { useEffect, useId, type ReactNode } from "react";

/** A page's frame: its heading, one sentence on what it is for, and what can be done here. */
export function PageFrame(props: { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  const { title, lead, actions, children } = props;
  useEffect(() => {
    document.title = `${title} · inorder`;
  }, [title]);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{title}</h1>
          {lead && <p className="page-lead">{lead}</p>}
        </div>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      <div className="page-body">{children}</div>
    </>
  );
}

interface CardProps {
  title?: ReactNode;
  hint?: ReactNode;
  actions?: ReactNode;
  /** Without inner margin, for tables. */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Card({ title, hint, actions, flush = false, className = "", children }: CardProps) {
  const id = useId();
  return (
    <section className={`card ${className}`} aria-labelledby={title ? id : undefined}>
      {(title || actions) && (
        <header className="card-head">
          <div>
            {title && <h2 id={id}>{title}</h2>}
            {hint && <p className="card-hint">{hint}</p>}
          </div>
          {actions}
        </header>
      )}
      <div className={flush ? "card-flush" : "card-body"}>{children}</div>
    </section>
  );
}

interface StatProps {
  label: string;
  value: ReactNode;
  unit?: string;
  hint?: ReactNode;
  tone?: "ok" | "warn" | "bad" | undefined;
}

/** One figure with its name. */
export function Stat({ label, value, unit, hint, tone }: StatProps) {
  return (
    <div className="stat">
      <span className="stat-label">{label}</span>
      <span className={`stat-value ${tone ? `tone-${tone}` : ""}`}>
        {value}
        {unit && <span className="stat-unit">{unit}</span>}
      </span>
      {hint && <span className="stat-hint">{hint}</span>}
    </div>
  );
}

/** Names and values, one pair a line, or two where there is room. */
export function Facts({ items, pairs = 1 }: { items: readonly (readonly [string, ReactNode])[]; pairs?: 1 | 2 }) {
  return (
    <dl className={pairs === 2 ? "facts facts-2" : "facts"}>
      {items.map(([name, value]) => (
        <FactsRow key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

function FactsRow({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
