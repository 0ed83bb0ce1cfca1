// SPDX-License-Identifier: Apache-2.0
// Runs a command and shows its output as it comes.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { lines, send, withQuery } from "./api";
import { Failure } from "./ui";

/** What a page keeps of the output; the oldest goes first. */
const KEPT = 200_000;

interface Event {
  type: "start" | "stdout" | "stderr" | "exit" | "truncated" | "continue" | "error";
  data?: string;
  exitCode?: number | null;
  timedOut?: boolean;
  durationMs?: number;
  droppedBytes?: number;
  processId?: string;
  cursor?: number;
  error?: { message: string };
}

interface Piece {
  kind: "stdout" | "stderr";
  text: string;
}

/** Escape sequences and other control characters have no business in a page. */
export function plain(text: string): string {
  return text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/g, "")
    .replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}

function shorten(pieces: Piece[]): Piece[] {
  let size = pieces.reduce((sum, piece) => sum + piece.text.length, 0);
  let first = 0;
  while (size > KEPT && first < pieces.length - 1) size -= pieces[first++]?.text.length ?? 0;
  return pieces.slice(first);
}

export function Command({ base }: { base: string }): JSX.Element {
  const [command, setCommand] = useState("");
  const [pieces, setPieces] = useState<Piece[]>([]);
  const [end, setEnd] = useState("");
  const [error, setError] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(false);
  const output = useRef<HTMLPreElement>(null);

  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => {
    output.current?.scrollTo(0, output.current.scrollHeight);
  }, [pieces]);

  const take = (event: Event): void => {
    if (event.type === "stdout" || event.type === "stderr") {
      const piece: Piece = { kind: event.type, text: plain(event.data ?? "") };
      setPieces((before) => shorten([...before, piece]));
    } else if (event.type === "exit") {
      const took = `after ${((event.durationMs ?? 0) / 1000).toFixed(2)} s`;
      setEnd(event.timedOut ? `timed out ${took}` : `exit status ${event.exitCode ?? "?"} ${took}`);
    } else if (event.type === "truncated") {
      setPieces((before) => [
        ...before,
        { kind: "stderr", text: `\n[${event.droppedBytes} bytes were cut]\n` },
      ]);
    } else if (event.type === "error") {
      setError(event.error?.message ?? "The command failed.");
    }
  };

  const run = async (submitted: globalThis.Event): Promise<void> => {
    submitted.preventDefault();
    const abort = new AbortController();
    running.current = abort;
    setBusy(true);
    setPieces([]);
    setEnd("");
    setError(null);
    try {
      const body = { command, stream: true, timeoutMs: 600_000 };
      let response = await send("POST", `${base}:exec`, body, abort.signal);
      for (;;) {
        let next: Event | null = null;
        for await (const event of lines<Event>(response))
          if (event.type === "continue") next = event;
          else take(event);
        if (!next) break;
        // the server has ended this answer, not the command
        const query = { cursor: next.cursor, follow: true };
        const path = withQuery(`${base}/processes/${next.processId}/output`, query);
        response = await send("GET", path, undefined, abort.signal);
      }
    } catch (why) {
      if (abort.signal.aborted) setEnd("stopped");
      else setError(why);
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <form class="row" onSubmit={(event) => void run(event)}>
        <input
          class="wide mono"
          aria-label="Command"
          placeholder="python3 -c 'print(6 * 7)'"
          value={command}
          required
          spellcheck={false}
          autocapitalize="off"
          onInput={(event) => setCommand(event.currentTarget.value)}
        />
        <button class="primary" disabled={busy}>
          Run
        </button>
        {busy && (
          <button type="button" onClick={() => running.current?.abort()}>
            Cancel
          </button>
        )}
      </form>
      <Failure error={error} />
      {(pieces.length > 0 || end || busy) && (
        <pre class="output" ref={output} aria-live="polite">
          {pieces.map((piece, i) => (
            <span key={i} class={piece.kind}>
              {piece.text}
            </span>
          ))}
        </pre>
      )}
      {end && <p class="fine">{end}</p>}
    </>
  );
}
