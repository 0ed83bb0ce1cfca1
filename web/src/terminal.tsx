// SPDX-License-Identifier: Apache-2.0
// A terminal in the sandbox: xterm.js at this end, a WebSocket between.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/**
 * The policy of the server forbids style elements made by scripts, which xterm.js makes for its
 * theme. Style sheets that a script constructs are allowed: while `make` runs, who asks for a style
 * element is given one without any effect, whose text goes into a sheet.
 */
function withoutStyleElements<T>(make: () => T): T {
  const create = document.createElement;
  const replaced = function (this: Document, name: string, options?: ElementCreationOptions) {
    if (name.toLowerCase() !== "style") return create.call(this, name, options);
    const element = create.call(this, "template");
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(element, "textContent", {
      get: () => "",
      set: (text: string) => sheet.replaceSync(text),
    });
    Object.defineProperty(element, "remove", {
      value: () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
        Element.prototype.remove.call(element);
      },
    });
    return element;
  };
  document.createElement = replaced as typeof document.createElement;
  try {
    return make();
  } finally {
    document.createElement = create;
  }
}

export function Terminal({ base }: { base: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [turn, setTurn] = useState(0);
  const [status, setStatus] = useState("connecting…");
  const [over, setOver] = useState(false);

  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const term = new Xterm({ cursorBlink: true, fontSize: 14, theme: { background: "#14171a" } });
    const fit = new FitAddon();
    term.loadAddon(fit);
    withoutStyleElements(() => term.open(box));
    fit.fit();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const query = `cols=${term.cols}&rows=${term.rows}`;
    const socket = new WebSocket(`${scheme}://${location.host}${base}/terminal?${query}`);
    socket.binaryType = "arraybuffer";
    const bytes = new TextEncoder();
    setOver(false);
    setStatus("connecting…");

    socket.onmessage = (message: MessageEvent<ArrayBuffer | string>) => {
      if (typeof message.data !== "string") {
        term.write(new Uint8Array(message.data));
        return;
      }
      const event = JSON.parse(message.data) as {
        type: string;
        exitCode?: number;
        error?: { message: string };
      };
      if (event.type === "ready") {
        setStatus("connected");
        term.focus();
      }
      if (event.type === "exit") setStatus(`the shell has ended (status ${event.exitCode ?? "?"})`);
      if (event.type === "error") setStatus(event.error?.message ?? "failed");
    };
    socket.onclose = () => {
      setOver(true);
      setStatus((said) => (said === "connected" || said === "connecting…" ? "disconnected" : said));
    };
    const typed = term.onData((text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(bytes.encode(text));
    });
    const resized = term.onResize(({ cols, rows }) => {
      if (socket.readyState === WebSocket.OPEN)
        socket.send(JSON.stringify({ type: "resize", cols, rows }));
    });
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(box);
    return () => {
      observer.disconnect();
      typed.dispose();
      resized.dispose();
      socket.onmessage = socket.onclose = null;
      socket.close(1000);
      term.dispose();
    };
  }, [base, turn]);

  return (
    <>
      <div class="terminal" ref={place} />
      <div class="row spread">
        <span class="fine" role="status">
          {status}
        </span>
        {over && (
          <button type="button" onClick={() => setTurn(turn + 1)}>
            Connect again
          </button>
        )}
      </div>
    </>
  );
}
