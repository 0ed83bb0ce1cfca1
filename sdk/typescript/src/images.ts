// SPDX-License-Identifier: Apache-2.0 - images: built, named, looked up.

import { type Links, packContext } from "./archive.js";
import { BuildError, ConnectionError, errorOf, invalidAnswer, SealmarkError } from "./errors.js";
import { given, type Json } from "./json.js";
import { Page } from "./page.js";
import { change, pause, type Request, segment } from "./protocol.js";
import { image, type Image, integer, logLine, type LogLine, text } from "./records.js";
import type { Transport } from "./transport.js";
import { sleep } from "./wait.js";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const LOG_SILENCE_MS = 600_000;
const POLL_MS = 1_000;

export interface Recipe {
  base?: string | undefined;
  apt?: readonly string[] | undefined;
  pip?: readonly string[] | undefined;
  npm?: readonly string[] | undefined;
  commands?: readonly string[] | undefined;
  files?: Record<string, string> | undefined;
  env?: Record<string, string> | undefined;
  workdir?: string | undefined;
}

/**
 * One source: a `recipe`, or the text of a `dockerfile` with the `files` that it copies, or the
 * folder `contextDir` that has them.
 */
export interface ImageSource {
  name?: string | undefined;
  recipe?: Recipe | undefined;
  dockerfile?: string | undefined;
  files?: Record<string, string> | undefined;
  contextDir?: string | undefined;
  /** Links in the folder are refused unless they are to be skipped. */
  links?: Links | undefined;
  buildArgs?: Record<string, string> | undefined;
  tags?: readonly string[] | undefined;
  labels?: Record<string, string> | undefined;
  idempotencyKey?: string | undefined;
}

const underWay = (state: string): boolean => state === "queued" || state === "building";

/** `runtime.images`. A reference is an id, `name`, `name:tag` or `name@version`. */
export class Images {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Asks for a build and does not wait for it. */
  async create(source: ImageSource): Promise<Image> {
    const { idempotencyKey, contextDir, links = "refuse", ...rest } = source;
    const context = contextDir === undefined ? undefined : await this.#sendContext(contextDir, links);
    const body = given({ ...rest, context });
    const request = change("POST", "/v1/images", { body, key: idempotencyKey });
    return image(await this.#transport.json(request));
  }

  /** Sends the pieces of a folder that the server does not have. */
  async #sendContext(folder: string, links: Links): Promise<Json> {
    const { archive, files, pieces } = await packContext(folder, links);
    const answer = await this.#transport.json(
      change("POST", "/v1/images/context/missing", { body: { digests: archive.chunks } }),
    );
    const missing = answer["missing"];
    if (!Array.isArray(missing)) throw invalidAnswer("The missing pieces are no list.");
    for (const [digest, content] of pieces) {
      if (!missing.includes(digest)) continue;
      await this.#transport.json({ method: "PUT", path: `/v1/images/context/${digest}`, content });
    }
    return { archive, files };
  }

  /**
   * Builds an image and waits until it is ready; `onLog` gets each line of the log. Throws
   * BuildError when the build fails.
   */
  async build(
    source: ImageSource,
    options: {
      onLog?: ((line: LogLine) => unknown) | undefined;
      signal?: AbortSignal | undefined;
    } = {},
  ): Promise<Image> {
    const { onLog, signal } = options;
    let made = await this.create(source);
    if (onLog) {
      for await (const line of this.followLogs(made.id, { signal })) await onLog(line);
      made = await this.get(made.id);
    }
    while (underWay(made.state)) {
      await sleep(POLL_MS, signal);
      made = await this.get(made.id);
    }
    if (made.state !== "ready") {
      throw new BuildError(`The image could not be built: ${made.error ?? made.state}`, {
        code: "image_build_failed",
        details: { image: made.info },
        hint: `images.logs(${JSON.stringify(made.id)}) has the whole log.`,
      });
    }
    return made;
  }

  /** The lines of a build's log after line `after`, until it is done. */
  async *followLogs(
    imageId: string,
    options: { after?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<LogLine, void, undefined> {
    let after = options.after ?? 0;
    for (let fruitless = 0; ; ) {
      const before = after;
      let failure: SealmarkError | null = null;
      let goesOn = false;
      const request: Request = {
        method: "GET",
        path: `/v1/images/${segment(imageId)}/logs`,
        query: { after, follow: true },
        accept: "application/x-ndjson",
        timeoutMs: LOG_SILENCE_MS,
        signal: options.signal,
      };
      try {
        for await (const event of this.#transport.lines(request)) {
          const type = text(event, "type");
          if (type === "done") return;
          if (type === "error") throw errorOf(event["error"], 0);
          if (type === "continue") {
            after = Math.max(after, integer(event, "after"));
            goesOn = true;
            break;
          }
          if (type !== "line") continue;
          const line = logLine(event);
          if (line.seq <= after) continue;
          after = line.seq;
          yield line;
        }
      } catch (error) {
        if (!(error instanceof SealmarkError) || !error.retryable) throw error;
        failure = error;
      }
      if (goesOn || after > before) {
        fruitless = 0;
        continue;
      }
      if (fruitless >= this.#transport.settings.maxRetries) {
        throw (
          failure ??
          new ConnectionError("The log ends before the build does.", { code: "connection_error" })
        );
      }
      await sleep(pause(failure, fruitless) ?? 0, options.signal);
      fruitless += 1;
    }
  }

  /** The log so far, as `{lines, nextAfter, done}`. */
  logs(imageId: string, options: { after?: number | undefined } = {}): Promise<Json> {
    const query = { after: options.after ?? 0 };
    return this.#transport.json({ method: "GET", path: `/v1/images/${segment(imageId)}/logs`, query });
  }

  /** One version, by its id. Throws NotFoundError (`image_not_found`). */
  async get(imageId: string): Promise<Image> {
    return image(await this.#transport.json({ method: "GET", path: `/v1/images/${segment(imageId)}` }));
  }

  /** What a reference names now. Throws NotFoundError (`image_not_found`). */
  async resolve(reference: string): Promise<Image> {
    return image(
      await this.#transport.json({ method: "GET", path: "/v1/images/resolve", query: { ref: reference } }),
    );
  }

  /** Versions, the newest first; iterating over it fetches further pages of `limit`. */
  async list(
    options: { name?: string | undefined; state?: string | undefined; limit?: number | undefined } = {},
  ): Promise<Page<Image>> {
    const { name, state, limit } = options;
    const fetch = (cursor: string | undefined): Promise<Json> =>
      this.#transport.json({ method: "GET", path: "/v1/images", query: { name, state, limit, cursor } });
    return new Page(fetch, image, await fetch(undefined));
  }

  /** Lets `name:tag` name this version. */
  tag(reference: string, tag: string): Promise<Image> {
    return this.#named(reference, "tag", tag);
  }

  /** Takes the tag away. */
  untag(reference: string, tag: string): Promise<Image> {
    return this.#named(reference, "untag", tag);
  }

  async #named(reference: string, verb: string, tag: string): Promise<Image> {
    const path = `/v1/images/${segment(await this.#id(reference))}:${verb}`;
    return image(await this.#transport.json(change("POST", path, { body: { tag } })));
  }

  /** Removes one version with its tags. */
  async delete(reference: string): Promise<void> {
    const path = `/v1/images/${segment(await this.#id(reference))}:delete`;
    await this.#transport.json(change("POST", path, { body: {} }));
  }

  async #id(reference: string): Promise<string> {
    return UUID.test(reference) ? reference : (await this.resolve(reference)).id;
  }
}
