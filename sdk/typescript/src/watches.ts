// SPDX-License-Identifier: Apache-2.0 - watches: what changes in a folder of a sandbox.

import { ConflictError, ConnectionError, errorOf, NotFoundError, SealmarkError } from "./errors.js";
import { given, type Json } from "./json.js";
import { passing } from "./processes.js";
import { change, pause, type Request, segment } from "./protocol.js";
import { boolean, fileEvent, type FileEvent, integer, optionalText, records, text } from "./records.js";
import type { Transport } from "./transport.js";
import { sleep } from "./wait.js";

const GRACE_MS = 60_000;
/** Of silence, after which the connection is made anew. */
const FOLLOW_MS = 180_000;
/** Kept of those that say that events are missing. */
const NOTICES = 100;

export interface WatchOptions {
  /** And all folders below it. */
  recursive?: boolean | undefined;
  /** What is wanted; by default all. */
  events?: readonly ("create" | "write" | "remove" | "rename" | "chmod")[] | undefined;
  /**
   * Patterns, without a slash for names, with one for paths below the folder, where `**` is any
   * number of folders.
   */
  include?: readonly string[] | undefined;
  /** The same; folders that are excluded are not watched. */
  exclude?: readonly string[] | undefined;
  /** Changes are told together after so many milliseconds (50). */
  batchMs?: number | undefined;
  /** Its end, in milliseconds (3,600,000); 0 for none but the sandbox's. */
  timeoutMs?: number | undefined;
  /** The most folders (1024). */
  maxWatches?: number | undefined;
  /** Of your choice: a-z, 0-9 and -. */
  id?: string | undefined;
}

/**
 * A watch that runs in the sandbox, whoever reads it; `await using` ends it with the block.
 *
 * Iterating gives each event once, as it happens, until the watch ends (`exitReason`) or its sandbox
 * is paused (`paused`): then iterating again goes on where it was. The newest MiB of events is kept
 * for a reader who is late.
 */
export class Watch {
  readonly sandboxId: string;
  /** The record, as it was when the watch began or was listed. */
  readonly info: Json;
  readonly id: string;
  /** Where the next read begins. */
  cursor = 0;
  /** stopped, timeout, root-removed or exited; null until its end was read. */
  exitReason: string | null = null;
  /** Whether iterating ended because the sandbox is paused. */
  paused = false;
  /** Why events are missing, the newest 100: `k` is overflow, lost or limit (folders). */
  readonly notices: Json[] = [];
  readonly #transport: Transport;
  readonly #pending: FileEvent[] = [];

  /** @internal Watches come from `files.watch` and `files.watches`. */
  constructor(transport: Transport, sandboxId: string, info: Json) {
    this.#transport = transport;
    this.sandboxId = sandboxId;
    this.info = info;
    this.id = text(info, "id");
  }

  get path(): string | null {
    return optionalText(this.info, "path");
  }
  /** Whether events are missing: look at the folder itself. */
  get incomplete(): boolean {
    return this.notices.length > 0;
  }

  #path(suffix = ""): string {
    return `/v1/sandboxes/${segment(this.sandboxId)}/files/watches/${segment(this.id)}${suffix}`;
  }

  /** What there is that was not read; waits for some, at most so long (60,000). */
  async getNewEvents(options: { waitMs?: number | undefined } = {}): Promise<FileEvent[]> {
    const { waitMs = 0 } = options;
    if (!this.#pending.length && this.exitReason === null) {
      const answer = await this.#transport.json({
        method: "GET",
        path: this.#path("/events"),
        query: { cursor: this.cursor, waitMs },
        timeoutMs: waitMs + GRACE_MS,
      });
      this.#takeEvents(answer["events"], integer(answer, "nextCursor"));
      const lost = integer(answer, "lostBytes");
      if (lost) this.#notice({ k: "lost", bytes: lost });
      for (const notice of records(answer["notices"], "the notices")) this.#takeNotice(notice);
      if (boolean(answer, "ended")) this.exitReason ??= "exited";
    }
    return this.#pending.splice(0);
  }

  #takeEvents(events: unknown, cursor: number): void {
    for (const event of records(events, "the events").map(fileEvent)) this.#pending.push(event);
    this.cursor = Math.max(this.cursor, cursor);
  }

  #takeNotice(notice: Json): void {
    if (text(notice, "k") === "end") this.exitReason = text(notice, "reason");
    else this.#notice(notice);
  }

  #notice(notice: Json): void {
    this.notices.push(notice);
    if (this.notices.length > NOTICES) this.notices.shift();
  }

  /** A line of the stream; its kind. */
  #takeLine(line: Json): string {
    const kind = text(line, "k");
    if (kind === "failure") throw errorOf(line, 0);
    const cursor = integer(line, "cursor");
    if (kind === "events") this.#takeEvents(line["events"], cursor);
    else if (["overflow", "lost", "limit", "end"].includes(kind)) this.#takeNotice(line);
    this.cursor = Math.max(this.cursor, cursor);
    this.paused = kind === "paused";
    return kind;
  }

  /**
   * The same as iterating; `signal` ends it. Throws NotFoundError or ConflictError when the sandbox
   * has ended, and ConnectionError when it cannot be read further.
   */
  async *events(
    options: { signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<FileEvent, void, undefined> {
    this.paused = false;
    for (let fruitless = 0; ; ) {
      yield* this.#drain();
      if (this.exitReason !== null) return;
      const before = this.cursor;
      let failure: SealmarkError | null = null;
      let goesOn = false;
      const request: Request = {
        method: "GET",
        path: this.#path("/events"),
        query: { cursor: this.cursor, follow: true },
        accept: "application/x-ndjson",
        timeoutMs: FOLLOW_MS,
        signal: options.signal,
      };
      try {
        for await (const line of this.#transport.lines(request)) {
          goesOn = this.#takeLine(line) === "continue";
          yield* this.#drain();
          if (this.#isOver()) return;
          if (goesOn) break;
        }
      } catch (error) {
        if (!passing(error)) throw error;
        failure = error;
      }
      if (goesOn || this.cursor > before) {
        fruitless = 0;
        continue;
      }
      if (fruitless >= this.#transport.settings.maxRetries) {
        throw (
          failure ??
          new ConnectionError(`The events of watch ${this.id} end before the watch does.`, {
            code: "connection_error",
            hint: "Iterate again, if the server still runs.",
          })
        );
      }
      await sleep(pause(failure, fruitless) ?? 0, options.signal);
      fruitless += 1;
    }
  }

  *#drain(): Generator<FileEvent, void, undefined> {
    for (let event; (event = this.#pending.shift()); ) yield event;
  }

  #isOver(): boolean {
    return this.exitReason !== null || this.paused;
  }

  [Symbol.asyncIterator](): AsyncGenerator<FileEvent, void, undefined> {
    return this.events();
  }

  /** Ends it; what has happened before can still be read. false: it had ended. */
  async stop(): Promise<boolean> {
    return boolean(await this.#transport.json(change("DELETE", this.#path())), "stopped");
  }

  /** Ends it, if it and its sandbox are still there. */
  async close(): Promise<void> {
    if (this.exitReason !== null) return;
    try {
      await this.stop();
    } catch (error) {
      if (!(error instanceof NotFoundError || error instanceof ConflictError)) throw error;
    }
  }

  /** The end of an `await using` block. It does not throw: a failure is a warning. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.close();
    } catch (error) {
      process.emitWarning(`watch ${this.id} could not be ended: ${String(error)}`, "SealmarkWarning");
    }
  }
}

/** `sandbox.files.watches`: at most 16 run in a sandbox. */
export class Watches {
  readonly #transport: Transport;
  readonly #sandboxId: string;

  /** @internal */
  constructor(transport: Transport, sandboxId: string) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
  }

  #path(): string {
    return `/v1/sandboxes/${segment(this.#sandboxId)}/files/watches`;
  }

  /** Begins one; see `files.watch`. */
  async start(path: string, options: WatchOptions = {}): Promise<Watch> {
    const { recursive, events, include, exclude, batchMs, timeoutMs, maxWatches, id } = options;
    const body = given({
      path,
      recursive: recursive ?? false,
      events,
      include,
      exclude,
      batchMs,
      timeoutMs,
      maxWatches,
      id,
    });
    const info = await this.#transport.json(change("POST", this.#path(), { body }));
    return new Watch(this.#transport, this.#sandboxId, info);
  }

  /** Those that run. One of them is read from the first event that is kept. */
  async list(): Promise<Watch[]> {
    const answer = await this.#transport.json({ method: "GET", path: this.#path() });
    return records(answer["data"], "the watches").map(
      (info) => new Watch(this.#transport, this.#sandboxId, info),
    );
  }

  /** Ends one by its id. false: it had ended. Throws NotFoundError. */
  async stop(watchId: string): Promise<boolean> {
    const path = `${this.#path()}/${segment(watchId)}`;
    return boolean(await this.#transport.json(change("DELETE", path)), "stopped");
  }
}
