// SPDX-License-Identifier: Apache-2.0 - processes in the background of a sandbox.

import { ConnectionError, invalidAnswer, SealmarkError } from "./errors.js";
import type { Json } from "./json.js";
import { change, type Data, dataBytes, pause, PIECE_BYTES, type Request, segment } from "./protocol.js";
import {
  Collector,
  commandEvent,
  type CommandEvent,
  type CommandResult,
  integer,
  optionalInteger,
  optionalText,
  OutputReader,
  text,
} from "./records.js";
import type { Transport } from "./transport.js";
import { Lock, sleep } from "./wait.js";

/** Of silence, after which the connection is made anew. */
const FOLLOW_MS = 180_000;
const WRITE_BYTES = PIECE_BYTES / 4;

/** A stream that broke off, and can be read further. */
export function passing(error: unknown): error is SealmarkError {
  return (
    error instanceof SealmarkError &&
    (error.retryable || (error instanceof ConnectionError && error.code !== "invalid_answer"))
  );
}

/** A process that runs on by itself: its output from any point, its input, its end. */
export class Process {
  readonly sandboxId: string;
  /** The whole record, as the server sent it last. */
  info: Json;
  readonly #transport: Transport;
  readonly #writing = new Lock();
  #written: number;

  /** @internal Processes come from `spawn`, `process` and `processes` of a sandbox. */
  constructor(transport: Transport, sandboxId: string, info: Json) {
    this.#transport = transport;
    this.sandboxId = sandboxId;
    this.info = info;
    text(info, "id");
    this.#written = optionalInteger(info, "stdinOffset") ?? 0;
  }

  get id(): string {
    return text(this.info, "id");
  }
  /** running, exited, killed, timed_out or unknown, when it was last asked for. */
  get state(): string | null {
    return optionalText(this.info, "state");
  }
  /** null while it runs, and when it was killed. */
  get exitCode(): number | null {
    return optionalInteger(this.info, "exitCode");
  }

  #path(suffix = ""): string {
    return `/v1/sandboxes/${segment(this.sandboxId)}/processes/${segment(this.id)}${suffix}`;
  }

  /** Asks for its state. */
  async refresh(): Promise<this> {
    this.info = await this.#transport.json({ method: "GET", path: this.#path() });
    return this;
  }

  /**
   * Its output from byte `cursor` of both streams on, until it ends. A stream that breaks off is
   * read further from where it was; what the sandbox no longer has is told as `truncated`.
   */
  async *output(
    options: { cursor?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const reader = new OutputReader(options.cursor ?? 0);
    for (let fruitless = 0; ; ) {
      const before = reader.cursor;
      let failure: SealmarkError | null = null;
      let goesOn = false;
      const request: Request = {
        method: "GET",
        path: this.#path("/output"),
        query: { cursor: reader.cursor, follow: true },
        accept: "application/x-ndjson",
        timeoutMs: FOLLOW_MS,
        signal: options.signal,
      };
      try {
        for await (const line of this.#transport.lines(request)) {
          const event = commandEvent(line);
          if (event?.type === "continue") {
            reader.cursor = Math.max(reader.cursor, event.cursor);
            goesOn = true;
            break;
          }
          if (event) yield* reader.take(event);
          if (event?.type === "exit") return;
        }
      } catch (error) {
        if (!passing(error)) throw error;
        failure = error;
      }
      if (goesOn || reader.cursor > before) {
        fruitless = 0;
        continue;
      }
      if (fruitless >= this.#transport.settings.maxRetries) {
        throw (
          failure ??
          new ConnectionError(`The output of process ${this.id} ends before the process does.`, {
            code: "connection_error",
            hint: "Read it further with output({cursor}), if the server still runs.",
          })
        );
      }
      await sleep(pause(failure, fruitless) ?? 0, options.signal);
      fruitless += 1;
    }
  }

  /** Its result, with its output from the beginning, when it has ended. */
  async wait(options: { signal?: AbortSignal | undefined } = {}): Promise<CommandResult> {
    const collector = new Collector(this.id);
    for await (const event of this.output({ signal: options.signal })) collector.take(event);
    const result = collector.result();
    this.info = { ...this.info, state: collector.end?.state ?? null, exitCode: result.exitCode };
    return result;
  }

  /**
   * Writes to its input (spawned with `stdin: "pipe"` or a terminal); `eof` ends it. The server
   * counts what it has taken, so that a write that is sent again is not typed twice. While the
   * process does not read, this waits.
   */
  write(data: Data, options: { eof?: boolean | undefined } = {}): Promise<void> {
    return this.#writing.run(async () => {
      let rest = Buffer.from(dataBytes(data));
      for (let waits = 0; ; ) {
        const piece = rest.subarray(0, WRITE_BYTES);
        const answer = await this.#transport.json(
          change("POST", this.#path(":write"), {
            body: {
              base64: piece.toString("base64"),
              offset: this.#written,
              eof: (options.eof ?? false) && piece.length === rest.length,
            },
          }),
        );
        const taken = integer(answer, "offset") - this.#written;
        if (taken < 0 || taken > piece.length) {
          throw invalidAnswer("The process took more or less input than there is.");
        }
        this.#written += taken;
        rest = rest.subarray(taken);
        if (!rest.length) return;
        if (taken) {
          waits = 0;
        } else {
          await sleep(pause(null, waits) ?? 0);
          waits += 1;
        }
      }
    });
  }

  /** Sends a signal, as "SIGINT". */
  async signal(name: string): Promise<void> {
    await this.#transport.json(change("POST", this.#path(":signal"), { body: { signal: name } }));
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    await this.signal("SIGKILL");
  }

  /** Sets the size of its terminal, in letters. */
  async resize(cols: number, rows: number): Promise<void> {
    await this.#transport.json(change("POST", this.#path(":resize"), { body: { cols, rows } }));
  }
}
