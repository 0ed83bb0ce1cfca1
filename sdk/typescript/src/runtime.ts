// SPDX-License-Identifier: Apache-2.0 - the client of a server.

import { ConnectionError, ServiceUnavailableError } from "./errors.js";
import { Images } from "./images.js";
import { given, type Json } from "./json.js";
import type { CreateOptions, SandboxOptions } from "./options.js";
import { Page } from "./page.js";
import { change, type Query, type Request, segment } from "./protocol.js";
import { text } from "./records.js";
import { GRACE_MS, Sandbox, SETTLE_SECONDS } from "./sandbox.js";
import { type RuntimeOptions, Settings } from "./settings.js";
import { Transport } from "./transport.js";
import { attempt } from "./wait.js";

const FORGET_MS = 10_000;

export interface ListOptions {
  /** All of them must match. */
  labels?: Record<string, string> | undefined;
  state?: readonly string[] | undefined;
  name?: string | undefined;
  includeStopped?: boolean | undefined;
  /** Entries of a page: 50, at most 100. */
  limit?: number | undefined;
}

export interface UsageOptions {
  range?: "24h" | "7d" | "30d" | "90d" | "all" | undefined;
  since?: string | undefined;
  until?: string | undefined;
  /** Sums, in `groups`. */
  groupBy?: "sandbox" | "day" | "key" | "label" | undefined;
  /** The label that `groupBy: "label"` groups by. */
  label?: string | undefined;
}

/** `runtime.sandboxes`. */
export class Sandboxes {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Makes a sandbox and waits until it runs. Throws ConflictError (`quota_exceeded`,
   * `no_capacity`: no room in that time; `name_taken`, `budget_exceeded`), InvalidRequestError with
   * every wrong field in `issues`, ServiceUnavailableError (`start_failed`) when it ended while it
   * started. When `signal` gives it up, what it has made is removed, unless an `idempotencyKey` makes
   * it to be had again.
   */
  create(options: CreateOptions = {}): Promise<Sandbox> {
    return this.#made(options, {}, options.keep ?? false);
  }

  /**
   * The sandbox of that name if it can run, otherwise a new one (`info.reused`). At the end of a
   * block it is stopped; `keep: false` removes it.
   */
  getOrCreate(name: string, options: Omit<CreateOptions, "name"> = {}): Promise<Sandbox> {
    return this.#made(options, { name, getOrCreate: true }, options.keep ?? true);
  }

  /**
   * Makes a sandbox for as long as `work` takes, and removes it. What `work` throws is thrown, also
   * when the removal fails; otherwise the failure of the removal is.
   */
  async use<T>(options: CreateOptions, work: (sandbox: Sandbox) => T | Promise<T>): Promise<T> {
    const sandbox = await this.create(options);
    let result: T;
    try {
      result = await work(sandbox);
    } catch (error) {
      await sandbox[Symbol.asyncDispose]();
      throw error;
    }
    await sandbox.close();
    return result;
  }

  async #made(options: CreateOptions, more: Json, keep: boolean): Promise<Sandbox> {
    const { wait = true, waitForCapacityMs, idempotencyKey, signal, keep: _, ...fields } = options;
    const waiting = { waitSeconds: SETTLE_SECONDS, timeoutMs: SETTLE_SECONDS * 1000 + GRACE_MS };
    const request = change("POST", "/v1/sandboxes", {
      body: given({ ...(fields satisfies SandboxOptions), ...more }),
      key: idempotencyKey,
      signal,
      ...(wait ? waiting : {}),
    });
    let info: Json;
    try {
      info = await this.#transport.create(request, waitForCapacityMs);
    } catch (error) {
      // given up: who asked for it will not know it
      if (signal?.aborted && idempotencyKey === undefined && more["getOrCreate"] === undefined) {
        await attempt(() => this.#forget(request));
      }
      throw error;
    }
    const box = new Sandbox(this.#transport, info, { keep });
    if (!wait || box.state === "running") return box;
    try {
      if (["starting", "resuming"].includes(box.state)) await box.waitFor("running", { signal });
      const details = { sandboxId: box.id, stopReason: box.stopReason };
      if (["stopping", "stopped"].includes(box.state)) {
        throw new ServiceUnavailableError(
          `Sandbox ${box.id} ended while it started: ${box.stopReason}.`,
          { code: "start_failed", details },
        );
      }
      if (box.state === "starting") {
        throw new ConnectionError(`Sandbox ${box.id} has not started in time.`, {
          code: "timeout",
          details,
        });
      }
      return box;
    } catch (error) {
      await attempt(() => box.delete());
      throw error;
    }
  }

  /** Removes what a create made, whose key names it; it may be made only now. */
  async #forget({ waitSeconds: _, signal: __, ...request }: Request): Promise<void> {
    const info = await this.#transport.json({ ...request, timeoutMs: FORGET_MS, once: true });
    await this.delete(text(info, "id"));
  }

  /** One by its id. Throws NotFoundError. */
  async get(sandboxId: string): Promise<Sandbox> {
    const path = `/v1/sandboxes/${segment(sandboxId)}`;
    return new Sandbox(this.#transport, await this.#transport.json({ method: "GET", path }), { keep: true });
  }

  /** Ends it and forgets it. Throws NotFoundError. */
  async delete(sandboxId: string): Promise<void> {
    await this.#transport.json(change("DELETE", `/v1/sandboxes/${segment(sandboxId)}`));
  }

  /** Those that this key sees, the oldest first; iterating over the page fetches further ones. */
  async list(options: ListOptions = {}): Promise<Page<Sandbox>> {
    const { labels = {}, state, name, includeStopped, limit } = options;
    const query: Query = {
      label: Object.entries(labels).map(([key, value]) => `${key}:${value}`),
      state,
      name,
      includeStopped: includeStopped || undefined,
      limit,
    };
    const fetch = (cursor: string | undefined): Promise<Json> =>
      this.#transport.json({ method: "GET", path: "/v1/sandboxes", query: { ...query, cursor } });
    const make = (info: Json): Sandbox => new Sandbox(this.#transport, info, { keep: true });
    return new Page(fetch, make, await fetch(undefined));
  }
}

/** A client of one server. Throws AuthenticationError if there is no key. */
export class Runtime {
  /** What it uses; nothing shows the key. */
  readonly settings: Settings;
  readonly sandboxes: Sandboxes;
  readonly images: Images;
  readonly #transport: Transport;

  constructor(options: RuntimeOptions = {}) {
    this.settings = new Settings(options);
    this.#transport = new Transport(this.settings);
    this.sandboxes = new Sandboxes(this.#transport);
    this.images = new Images(this.#transport);
  }

  /** Who the key is. */
  me(): Promise<Json> {
    return this.request("GET", "/v1/me");
  }

  /** What may be had at once, and what is used of it. */
  limits(): Promise<Json> {
    return this.request("GET", "/v1/limits");
  }

  /** What was used, and what it cost, in the last `range` or between two times (ISO 8601). */
  usage(options: UsageOptions = {}): Promise<Json> {
    const { range, since, until, groupBy, label } = options;
    return this.request("GET", "/v1/usage", { query: { range, since, until, groupBy, label } });
  }

  /** What has happened, as `{data, nextCursor}`. */
  events(query: Query = {}): Promise<Json> {
    return this.request("GET", "/v1/events", { query });
  }

  /** Any route of the API, for what has no method here. */
  request(
    method: "GET" | "POST" | "PUT" | "DELETE",
    path: string,
    options: { body?: Json; query?: Query } = {},
  ): Promise<Json> {
    return this.#transport.json(
      method === "GET" ? { method, path, ...options } : change(method, path, options),
    );
  }
}
