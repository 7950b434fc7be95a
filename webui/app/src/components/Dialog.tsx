import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import { explain } from "../api/client";
import { Button } from "./Button";
import { Banner } from "./notices";

interface DialogProps {
  title: ReactNode;
  onClose: () => void;
  wide?: boolean;
  children: ReactNode;
}

/** A modal dialog: the browser keeps the focus inside, Escape closes. Mounted means open. */
export function Dialog({ title, onClose, wide = false, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    // The first field, not the button that closes; without fields the dialog itself, to be read from its title on.
    (dialog?.querySelector<HTMLElement>("input:enabled, select:enabled, textarea:enabled") ?? dialog)?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={wide ? "dialog dialog-wide" : "dialog"}
      aria-labelledby={id}
      tabIndex={-1}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => event.target === ref.current && onClose()}
    >
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button variant="ghost" icon="close" iconOnly aria-label="Close" onClick={onClose} />
      </header>
      <div className="dialog-body">{children}</div>
    </dialog>
  );
}

interface FormDialogProps {
  title: ReactNode;
  /** What the button that does it says: "Create topic". */
  submit: string;
  danger?: boolean;
  disabled?: boolean;
  wide?: boolean;
  onClose: () => void;
  /** Does it; what it throws is shown in the dialog, otherwise the dialog closes. */
  onSubmit: () => Promise<unknown>;
  children: ReactNode;
}

/** A dialog that does something: also the one to confirm in. */
export function FormDialog({ title, submit, danger, disabled, wide, onClose, onSubmit, children }: FormDialogProps) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} wide={wide ?? false}>
      <form className="form" onSubmit={(event) => void send(event)}>
        {children}
        {error !== null && <Banner tone="bad">{explain(error)}</Banner>}
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant={danger ? "danger" : "primary"} busy={busy} disabled={disabled ?? false}>
            {submit}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
