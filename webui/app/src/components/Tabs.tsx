import { useId, useRef, type KeyboardEvent, type ReactNode } from "react";

export interface Tab {
  id: string;
  title: ReactNode;
  panel: () => ReactNode;
}

/** Tabs as screen readers know them: arrow keys move, the panel is named by its tab. */
export function Tabs({
  tabs,
  current,
  onChange,
  label,
}: {
  tabs: Tab[];
  current: string;
  onChange: (id: string) => void;
  label: string;
}) {
  const prefix = useId();
  const list = useRef<HTMLDivElement>(null);
  const index = Math.max(
    0,
    tabs.findIndex(({ id }) => id === current),
  );
  const move = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = {
      ArrowRight: index + 1,
      ArrowLeft: index - 1,
      Home: 0,
      End: tabs.length - 1,
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = (step + tabs.length) % tabs.length;
    onChange(tabs[next]!.id);
    list.current?.querySelectorAll<HTMLButtonElement>("[role=tab]")[next]?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map(({ id, title }, at) => (
          <button
            key={id}
            type="button"
            role="tab"
            className="tab"
            id={`${prefix}-tab-${id}`}
            aria-controls={`${prefix}-panel`}
            aria-selected={at === index}
            tabIndex={at === index ? 0 : -1}
            onClick={() => onChange(id)}
          >
            {title}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        className="tab-panel"
        id={`${prefix}-panel`}
        aria-labelledby={`${prefix}-tab-${tabs[index]!.id}`}
      >
        {tabs[index]!.panel()}
      </div>
    </>
  );
}
