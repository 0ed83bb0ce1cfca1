// SPDX-License-Identifier: Apache-2.0
// Small parts that every page uses: errors, loading, dialogs, formats, polling.
import { cloneElement, type ComponentChildren, type JSX, type VNode } from "preact";
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";

import { ApiError } from "./api";

/** What went wrong, with what can be done about it and the id that the server's log has. */
export function Failure({ error }: { error: unknown }): JSX.Element | null {
  if (!error) return null;
  if (!(error instanceof ApiError))
    return (
      <p class="failure" role="alert">
        {String(error)}
      </p>
    );
  return (
    <div class="failure" role="alert">
      <p>{error.message}</p>
      {error.issues.length > 0 && (
        <ul>
          {error.issues.map((issue) => (
            <li key={issue.path}>
              <code>{issue.path}</code> {issue.message}
            </li>
          ))}
        </ul>
      )}
      {error.hint && <p>{error.hint}</p>}
      {error.requestId && <p class="fine">Request {error.requestId}</p>}
    </div>
  );
}

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  reload: () => void;
}

/** Loads now and, with `everyMs`, again and again while the page is seen. */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  keys: unknown[],
  everyMs = 0,
): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let first = true; // also where it is not seen yet
    const again = async (): Promise<void> => {
      if (first || document.visibilityState === "visible") {
        first = false;
        try {
          const found = await latest.current(abort.signal);
          if (abort.signal.aborted) return;
          setValue(found);
          setError(null);
        } catch (why) {
          if (abort.signal.aborted) return;
          setError(why);
        }
      }
      if (everyMs) timer = window.setTimeout(() => void again(), everyMs);
    };
    void again();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [...keys, turn, everyMs]);

  return { value, error, reload: useCallback(() => setTurn((n) => n + 1), []) };
}

/** A button that is busy while its action runs; what fails is shown where `onError` puts it. */
export function Action({
  run,
  onError,
  confirm,
  kind = "",
  disabled = false,
  children,
}: {
  run: () => Promise<unknown>;
  onError: (error: unknown) => void;
  confirm?: string;
  kind?: "" | "primary" | "danger";
  disabled?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  const [busy, setBusy] = useState(false);
  const press = async (): Promise<void> => {
    if (confirm && !window.confirm(confirm)) return;
    setBusy(true);
    onError(null);
    try {
      await run();
    } catch (why) {
      onError(why);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={kind} disabled={busy || disabled} onClick={() => void press()}>
      {children}
    </button>
  );
}

/** A modal dialog of the browser: Escape closes it, focus stays inside. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

export function Field({
  label,
  help,
  children,
}: {
  label: string;
  help?: string;
  children: VNode;
}): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        {help ? cloneElement(children, { "aria-describedby": id }) : children}
      </label>
      {help && <small id={id}>{help}</small>}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

export interface PagerOf {
  next: string | null | undefined;
  back: string;
  on: string;
}

/**
 * Where one is in a list of pages: `cursor` is undefined on the first. Another `query` is another
 * list, which begins at its first page.
 */
export function usePages(query = ""): {
  cursor: string | undefined;
  pager: (p: PagerOf) => JSX.Element;
} {
  const [at, setAt] = useState({ query, cursors: [] as string[] });
  const cursors = at.query === query ? at.cursors : [];
  const setCursors = (list: string[]): void => setAt({ query, cursors: list });
  const pager = ({ next, back, on }: PagerOf): JSX.Element => (
    <>
      {(cursors.length > 0 || next) && (
        <div class="row">
          <button
            type="button"
            disabled={cursors.length === 0}
            onClick={() => setCursors(cursors.slice(0, -1))}
          >
            {back}
          </button>
          <button
            type="button"
            disabled={!next}
            onClick={() => next && setCursors([...cursors, next])}
          >
            {on}
          </button>
        </div>
      )}
    </>
  );
  return { cursor: cursors.at(-1), pager };
}

/** 1234567 microdollars -> "$1.234567", to the microdollar, without needless zeros. */
export function money(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return "–";
  const text = (Math.abs(micros) / 1e6).toFixed(6).replace(/0{1,4}$/, "");
  return `${micros < 0 ? "−" : ""}$${text}`;
}

/** 3725 -> "1 h 2 min" */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export function when(iso: string | null | undefined): string {
  return iso
    ? new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })
    : "–";
}

export function State({ state }: { state: string }): JSX.Element {
  return <span class={`state ${state}`}>{state}</span>;
}

/** Seconds from now until then, counted down each second. */
export function useSecondsUntil(iso: string | null): number | null {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return iso ? (Date.parse(iso) - now) / 1000 : null;
}
