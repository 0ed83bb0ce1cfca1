// SPDX-License-Identifier: Apache-2.0 - one sandbox: its commands, its life, its end.
/// <reference lib="esnext.disposable" preserve="true" />

import { CommandError, ConnectionError, invalidRequest, NotFoundError, SealmarkError } from "./errors.js";
import { Files } from "./files.js";
import { given, type Json } from "./json.js";
import type { CreateOptions, UpdateOptions } from "./options.js";
import { passing, Process } from "./processes.js";
import { change, commandBody, type CommandOptions, segment, shorterTimeout } from "./protocol.js";
import {
  Collector,
  commandEvent,
  type CommandEvent,
  commandResult,
  type CommandResult,
  micros,
  optionalText,
  OutputReader,
  record,
  records,
  text,
} from "./records.js";
import { Runtime } from "./runtime.js";
import type { RuntimeOptions } from "./settings.js";
import { Terminal, type TerminalOptions } from "./terminal.js";
import type { Transport } from "./transport.js";
import { attempt } from "./wait.js";

/** Of a command that names none. */
const TIMEOUT_MS = 60_000;
/** Beyond a command's own time: a sandbox that starts takes 30 s of it. */
export const GRACE_MS = 60_000;
/** How long the server may wait for a change of state before it answers. */
export const SETTLE_SECONDS = 60;
const KILL_MS = 5_000;

export type WaitState = "running" | "paused" | "stopped";

export interface ExecOptions extends CommandOptions {
  /** Throw CommandError unless it exits with 0. */
  check?: boolean | undefined;
  /** Get each piece of output as it is written. */
  onStdout?: ((text: string) => unknown) | undefined;
  onStderr?: ((text: string) => unknown) | undefined;
  /**
   * A call with the same key and arguments gets the same result and runs nothing, for 24 hours.
   * Not together with callbacks or a signal.
   */
  idempotencyKey?: string | undefined;
  /** Ends the command when it is aborted; exec rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface SpawnOptions extends Omit<CommandOptions, "stdin"> {
  /** "pipe" keeps its input open for `write`. */
  stdin?: string | Uint8Array | undefined;
  /** Gives it a terminal of that size, in letters. */
  pty?: { cols: number; rows: number } | undefined;
}

/**
 * A sandbox that exists. `await using` removes it at the end of the block, also after an error;
 * so do `close()`, and `runtime.sandboxes.use()` for programs without `await using`.
 */
export class Sandbox {
  /** The whole record, as the server sent it last. */
  info: Json;
  readonly files: Files;
  readonly #transport: Transport;
  readonly #keep: boolean;

  /** @internal Sandboxes come from `create`, `get` and `list`. */
  constructor(transport: Transport, info: Json, options: { keep?: boolean | undefined } = {}) {
    this.#transport = transport;
    this.#keep = options.keep ?? false;
    this.info = info;
    text(info, "state");
    this.files = new Files(transport, this.id);
  }

  /** Makes one with a client of its own; options and errors as `runtime.sandboxes.create`. */
  static create(options: CreateOptions & RuntimeOptions = {}): Promise<Sandbox> {
    const { apiKey, baseUrl, authUrl, timeoutMs, maxRetries, fetch, ...rest } = options;
    return new Runtime({ apiKey, baseUrl, authUrl, timeoutMs, maxRetries, fetch }).sandboxes.create(rest);
  }

  /**
   * One that is there, by its id, with a client of its own. At the end of a block it is stopped, not
   * removed. Throws NotFoundError.
   */
  static connect(sandboxId: string, options: RuntimeOptions = {}): Promise<Sandbox> {
    return new Runtime(options).sandboxes.get(sandboxId);
  }

  get id(): string {
    return text(this.info, "id");
  }
  get name(): string | null {
    return optionalText(this.info, "name");
  }
  /** starting, running, pausing, paused, resuming, stopping or stopped; as last asked. */
  get state(): string {
    return text(this.info, "state");
  }
  get labels(): Record<string, string> {
    const found = record(this.info["labels"] ?? {}, "labels");
    return Object.fromEntries(
      Object.entries(found).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  }
  /** Why it ended, as "requested" or "lease_expired"; null while it has not. */
  get stopReason(): string | null {
    return optionalText(this.info, "stopReason");
  }
  /** When the lease ends, ISO 8601 in UTC. */
  get expiresAt(): string | null {
    return optionalText(this.info, "expiresAt");
  }
  /** What it has cost, in millionths of a dollar. */
  get chargedMicros(): number {
    return micros(this.info, "chargedMicros");
  }
  /** What its lease can cost beyond that. */
  get heldMicros(): number {
    return micros(this.info, "heldMicros");
  }

  #path(suffix = ""): string {
    return `/v1/sandboxes/${segment(this.id)}${suffix}`;
  }

  // --- commands --------------------------------------------------------------------------------

  /**
   * Runs a command: a text with bash, a list as a program with its arguments.
   *
   * A timeout is a result (`timedOut`), with the output until then. Without callbacks and signal
   * 64 KiB of each stream are kept (1 MiB if `timeoutMs` is over a minute), with them 16 MiB; the
   * flags of the result say what is missing.
   *
   * Throws CommandError with `check`; ConflictError (`lease_too_short`, `sandbox_stopped`, ...);
   * ConnectionError when the answer was lost. The same call is sent again by itself where the
   * server keeps the answer; a command that was followed may have run.
   */
  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<CommandResult> {
    const { check, onStdout, onStderr, idempotencyKey, signal } = options;
    const body = commandBody(command, options);
    const followed = onStdout !== undefined || onStderr !== undefined || signal !== undefined;
    if (followed && idempotencyKey !== undefined) {
      throw invalidRequest("idempotencyKey does not go together with callbacks or a signal.");
    }
    let result: CommandResult;
    if (followed) {
      const collector = new Collector();
      for await (const event of this.#events(body, signal)) {
        collector.take(event);
        if (event.type === "stdout") await onStdout?.(event.data);
        if (event.type === "stderr") await onStderr?.(event.data);
      }
      result = collector.result();
    } else {
      const timeoutMs = (options.timeoutMs ?? TIMEOUT_MS) + GRACE_MS;
      result = commandResult(
        await this.#transport.json(
          change("POST", this.#path(":exec"), { body, key: idempotencyKey, timeoutMs }),
        ),
      );
    }
    if (check && (result.exitCode !== 0 || result.timedOut)) throw new CommandError(result);
    return result;
  }

  /** The same as events: start, output..., exit. Leaving the loop ends the command. */
  execStream(
    command: string | readonly string[],
    options: CommandOptions & { signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<CommandEvent, void, undefined> {
    return this.#events(commandBody(command, options), options.signal);
  }

  /** Begins it, with a shorter time if nobody asked for one and the lease is short. */
  async *#events(
    body: Json,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const asked = body["timeoutMs"];
    let limit = typeof asked === "number" ? asked : TIMEOUT_MS;
    for (let triesLeft = 2; ; triesLeft--) {
      try {
        yield* this.#begun({ ...body, timeoutMs: limit }, limit, signal);
        return;
      } catch (error) {
        const shorter = error instanceof SealmarkError ? shorterTimeout(error) : null;
        if (asked !== undefined || shorter === null || !triesLeft) throw error;
        limit = Math.min(limit, shorter);
      }
    }
  }

  async *#begun(
    body: Json,
    limitMs: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const reader = new OutputReader();
    let processId: string | null = null;
    let ended = false;
    const request = change("POST", this.#path(":exec"), {
      body: { ...body, stream: true },
      accept: "application/x-ndjson",
      timeoutMs: limitMs + GRACE_MS,
      ends: true,
      once: true,
      signal,
    });
    try {
      try {
        for await (const line of this.#transport.lines(request)) {
          const event = commandEvent(line);
          if (event?.type === "continue") {
            processId = event.processId ?? processId;
            reader.cursor = Math.max(reader.cursor, event.cursor);
            break;
          }
          if (event?.type === "start") processId = event.processId;
          ended = event?.type === "exit";
          if (event) yield* reader.take(event);
          if (ended) return;
        }
      } catch (error) {
        if (processId === null || !passing(error)) throw error;
      }
      if (processId === null) {
        throw new ConnectionError("The stream ended before the command had begun.", {
          code: "connection_error",
          hint: "It may have run. A call with an idempotencyKey can be made again.",
        });
      }
      for await (const event of this.#rest(processId, reader.cursor, signal)) {
        ended = event.type === "exit";
        yield event;
      }
    } finally {
      if (processId !== null && !ended) await this.#kill(processId);
    }
  }

  /** What a server that can has kept of a command whose stream broke off. */
  async *#rest(
    processId: string,
    cursor: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const process = new Process(this.#transport, this.id, { id: processId });
    try {
      yield* process.output({ cursor, signal });
    } catch (error) {
      if (!(error instanceof SealmarkError)) throw error;
      throw new ConnectionError(
        `The output of the command was lost, and cannot be read further: ${error.message}`,
        {
          code: "connection_error",
          details: { processId },
          hint: "The command was ended, or it runs on without a reader.",
          cause: error,
        },
      );
    }
  }

  /** The whole command, when whoever waits for it does not wait any more. */
  async #kill(processId: string): Promise<void> {
    const path = this.#path(`/processes/${segment(processId)}:signal`);
    const body = { signal: "SIGKILL" };
    await attempt(() =>
      this.#transport.json(change("POST", path, { body, timeoutMs: KILL_MS, once: true })),
    );
  }

  /** Starts a process that runs on by itself, without `timeoutMs` as long as the lease. */
  async spawn(command: string | readonly string[], options: SpawnOptions = {}): Promise<Process> {
    const { pty, stdin, ...rest } = options;
    const pipe = stdin === "pipe";
    const body = {
      ...commandBody(command, { ...rest, stdin: pipe ? undefined : stdin }),
      ...given({ stdinMode: pipe ? "pipe" : undefined, pty }),
    };
    const info = await this.#transport.json(change("POST", this.#path("/processes"), { body }));
    return new Process(this.#transport, this.id, info);
  }

  /**
   * Opens a terminal of a login shell, to type in and read while it runs; the end of an `await using`
   * block hangs it up. Throws NotFoundError, ConflictError (`sandbox_stopped`, ...), ConnectionError.
   */
  terminal(options: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.#transport, this.id, options);
  }

  /** Those that were spawned, and commands that are followed: what runs, and the last that ended. */
  async processes(): Promise<Process[]> {
    const answer = await this.#transport.json({ method: "GET", path: this.#path("/processes") });
    return records(answer["data"], "the processes").map(
      (info) => new Process(this.#transport, this.id, info),
    );
  }

  /** One of them. Throws NotFoundError. */
  async process(processId: string): Promise<Process> {
    const path = this.#path(`/processes/${segment(processId)}`);
    return new Process(this.#transport, this.id, await this.#transport.json({ method: "GET", path }));
  }

  // --- life ------------------------------------------------------------------------------------

  /** Asks for its record. */
  async refresh(): Promise<this> {
    this.info = await this.#transport.json({ method: "GET", path: this.#path() });
    return this;
  }

  /** Waits until it is in that state, at most 120 seconds; look at `state` after it. */
  async waitFor(
    state: WaitState,
    options: { timeoutSeconds?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<this> {
    const timeoutSeconds = options.timeoutSeconds ?? 60;
    this.info = await this.#transport.json({
      method: "GET",
      path: this.#path(),
      query: { waitFor: state, timeoutSeconds },
      timeoutMs: timeoutSeconds * 1000 + GRACE_MS,
      signal: options.signal,
    });
    return this;
  }

  /** Ends it; the record stays. */
  stop(options: { wait?: boolean | undefined } = {}): Promise<this> {
    return this.#life("stop", {}, options.wait ?? true);
  }
  /** Stops its clock: it keeps its memory, and costs no CPU. */
  pause(options: { wait?: boolean | undefined } = {}): Promise<this> {
    return this.#life("pause", {}, options.wait ?? true);
  }
  /** Lets it go on. */
  wake(options: { wait?: boolean | undefined } = {}): Promise<this> {
    return this.#life("wake", {}, options.wait ?? true);
  }
  /** Starts it again. */
  restart(options: { wait?: boolean | undefined } = {}): Promise<this> {
    return this.#life("restart", {}, options.wait ?? true);
  }
  /** Lengthens the lease by so many seconds. */
  extend(seconds: number): Promise<this> {
    return this.#life("extend", { seconds }, false);
  }
  /** Changes settings of `create`. */
  update(settings: UpdateOptions): Promise<this> {
    return this.#life("update", given({ ...settings }), false);
  }

  async #life(verb: string, body: Json, wait: boolean): Promise<this> {
    const waiting = { waitSeconds: SETTLE_SECONDS, timeoutMs: SETTLE_SECONDS * 1000 + GRACE_MS };
    const request = change("POST", this.#path(`:${verb}`), { body, ...(wait ? waiting : {}) });
    this.info = await this.#transport.json(request);
    return this;
  }

  /** Ends it and forgets it. One that is gone already is no error. */
  async delete(): Promise<void> {
    try {
      await this.#transport.json(change("DELETE", this.#path()));
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }

  /** What it used over time. */
  metrics(options: { range?: string | undefined } = {}): Promise<Json> {
    const query = { range: options.range };
    return this.#transport.json({ method: "GET", path: this.#path("/metrics"), query });
  }

  /** What the end of a block does: removes it, or with `keep` stops it. */
  async close(): Promise<void> {
    if (this.#keep) await this.stop();
    else await this.delete();
  }

  /**
   * The end of an `await using` block. It does not throw, so that the block's own error is what is
   * seen; a removal that fails is a warning, and the sandbox ends with its lease.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.close();
    } catch (error) {
      process.emitWarning(`sandbox ${this.id} could not be removed: ${String(error)}`, "SealmarkWarning");
    }
  }
}
