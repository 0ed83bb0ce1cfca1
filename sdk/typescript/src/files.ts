// SPDX-License-Identifier: Apache-2.0 - files of a sandbox.

import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";

import { checkPack, limited, type Links, pack, place, unpack, UNPACKED_BYTES } from "./archive.js";
import { ConnectionError, invalidAnswer, invalidRequest, NotFoundError } from "./errors.js";
import { given, type Json } from "./json.js";
import { change, type Data, dataBytes, modeText, PIECE_BYTES, type Request, segment } from "./protocol.js";
import { boolean, fileEntry, type FileEntry, integer, records, text } from "./records.js";
import type { Transport } from "./transport.js";
import { attempt } from "./wait.js";
import { type Watch, Watches, type WatchOptions } from "./watches.js";

const MAX_READ_BYTES = 256 << 20;
const ABORT_MS = 5_000;
const COMMIT_MS = 300_000;

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface CopyOptions {
  /** Links, devices and the like are refused unless they are to be skipped. */
  links?: Links | undefined;
  /** "root" for root's rights; by default the sandbox's user. */
  user?: "sandbox" | "root" | undefined;
}

/** `sandbox.files`. Paths are absolute; the rights are those of the sandbox's user. */
export class Files {
  readonly watches: Watches;
  readonly #transport: Transport;
  readonly #base: string;

  /** @internal */
  constructor(transport: Transport, sandboxId: string) {
    this.#transport = transport;
    this.#base = `/v1/sandboxes/${segment(sandboxId)}`;
    this.watches = new Watches(transport, sandboxId);
  }

  /**
   * The content of a file of at most `maxBytes` (256 MiB); `download` takes larger ones. Throws
   * NotFoundError (`file_not_found`), ConflictError (`is_a_directory`), PermissionDeniedError, or
   * ConnectionError (`answer_too_large`).
   */
  read(path: string, options: { maxBytes?: number | undefined } = {}): Promise<Uint8Array> {
    return this.#transport.content(this.#content(path), options.maxBytes ?? MAX_READ_BYTES);
  }

  /** The same as text, in UTF-8. Throws TypeError for what is none. */
  async readText(path: string, options: { maxBytes?: number | undefined } = {}): Promise<string> {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await this.read(path, options));
  }

  /** The content in pieces as they come, of any length. */
  readStream(path: string): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#transport.pieces(this.#content(path));
  }

  #content(path: string): Request {
    return {
      method: "GET",
      path: `${this.#base}/files/content`,
      query: { path },
      accept: "application/octet-stream",
    };
  }

  /**
   * Writes a file whole or not at all, and the folders above it. `mode` is 0o644 if the file is
   * new and nothing is given. More than 1 MiB goes up in pieces, and is checked there by its
   * SHA-256.
   */
  async write(
    path: string,
    data: Data,
    options: { mode?: number | undefined } = {},
  ): Promise<void> {
    const content = dataBytes(data);
    const mode = modeText(options.mode);
    if (content.length > PIECE_BYTES) {
      await this.#writeLarge(path, mode, () => [content]);
      return;
    }
    await this.#transport.json(
      change("PUT", `${this.#base}/files/content`, { query: { path, mode }, content }),
    );
  }

  async #writeLarge(path: string, mode: string | undefined, content: () => Bytes): Promise<void> {
    const digest = createHash("sha256");
    let size = 0;
    for await (const piece of content()) {
      digest.update(piece);
      size += piece.length;
    }
    await this.#upload("/uploads", given({ path, size, sha256: digest.digest("hex"), mode }), content());
  }

  /** Begin, pieces, commit; what is not finished is given up there too. */
  async #upload(route: string, body: Json, content: Bytes): Promise<void> {
    const begun = await this.#transport.json(change("POST", this.#base + route, { body }));
    const step = integer(begun, "chunkBytes");
    if (step <= 0 || step > PIECE_BYTES) {
      throw invalidAnswer("The server wants pieces of a size that the API does not have.");
    }
    const path = `${this.#base}${route}/${segment(text(begun, "uploadId"))}`;
    try {
      let offset = 0;
      for await (const piece of inPieces(content, step)) {
        await this.#transport.json({ method: "PUT", path, query: { offset }, content: piece });
        offset += piece.length;
      }
      // unpacking takes as long as it takes
      await this.#transport.json(change("POST", `${path}:commit`, { body: {}, timeoutMs: COMMIT_MS }));
    } catch (error) {
      await attempt(() =>
        this.#transport.json(
          change("POST", `${path}:abort`, { body: {}, timeoutMs: ABORT_MS, once: true }),
        ),
      );
      throw error;
    }
  }

  /**
   * What is in a folder, `depth` levels (1; 32 with `glob`), at most `limit` (1000) entries.
   * `glob` takes only what fits, where `**` is any number of folders; `hidden` takes names that
   * begin with a dot too.
   */
  async list(
    path = "/workspace",
    options: {
      depth?: number | undefined;
      glob?: string | undefined;
      hidden?: boolean | undefined;
      limit?: number | undefined;
    } = {},
  ): Promise<FileEntry[]> {
    const { depth, glob, hidden, limit } = options;
    const answer = await this.#transport.json({
      method: "GET",
      path: `${this.#base}/files/list`,
      query: { path, depth, glob, hidden, limit },
    });
    return records(answer["data"], "the folder").map(fileEntry);
  }

  /** What a path is. Throws NotFoundError (`file_not_found`) if it is nothing. */
  async stat(path: string): Promise<FileEntry> {
    const answer = await this.#stat(path);
    if (!boolean(answer, "exists", true)) {
      throw new NotFoundError(`${path} does not exist.`, { code: "file_not_found", status: 404 });
    }
    return fileEntry(answer);
  }

  /** Whether there is anything of that name. */
  async exists(path: string): Promise<boolean> {
    return boolean(await this.#stat(path), "exists", true);
  }

  #stat(path: string): Promise<Json> {
    return this.#transport.json({ method: "GET", path: `${this.#base}/files/stat`, query: { path } });
  }

  /** Makes a folder, and those above it. */
  async mkdir(path: string, options: { parents?: boolean | undefined } = {}): Promise<void> {
    await this.#change("mkdir", { path, parents: options.parents ?? true });
  }

  /**
   * Removes a file or an empty folder, with `recursive` a full one too; false: there was none.
   * Throws ConflictError (`directory_not_empty`).
   */
  async remove(path: string, options: { recursive?: boolean | undefined } = {}): Promise<boolean> {
    const answer = await this.#change("remove", { path, recursive: options.recursive ?? false });
    return boolean(answer, "removed", true);
  }

  /** Moves it. Throws ConflictError (`already_exists`) unless `overwrite`. */
  async rename(
    from: string,
    to: string,
    options: { overwrite?: boolean | undefined } = {},
  ): Promise<void> {
    await this.#change("rename", { from, to, overwrite: options.overwrite ?? false });
  }

  /** Sets the mode, as 0o755. */
  async chmod(path: string, mode: number): Promise<void> {
    await this.#change("chmod", { path, mode: modeText(mode) });
  }

  #change(verb: string, body: Json): Promise<Json> {
    return this.#transport.json(change("POST", `${this.#base}/files:${verb}`, { body }));
  }

  /**
   * Begins to watch a folder; iterate over the watch for what changes in it. Throws NotFoundError
   * (`file_not_found`), ConflictError (`not_a_directory`), PermissionDeniedError,
   * ServiceUnavailableError (`guest_busy`: 16 run already).
   */
  watch(path: string, options: WatchOptions = {}): Promise<Watch> {
    return this.watches.start(path, options);
  }

  /**
   * Copies a folder's content into the folder `remote`, or a file to the path `remote`. Modes are
   * kept; owners are not. Links, devices and the like throw ArchiveError before anything is sent,
   * or are left out with `links: "skip"`.
   */
  async upload(local: string, remote: string, options: CopyOptions = {}): Promise<void> {
    const status = await fs.stat(local);
    if (!status.isDirectory()) {
      await this.#writeLarge(remote, modeText(status.mode & 0o777), () => fileContent(local));
      return;
    }
    const links = options.links ?? "refuse";
    await checkPack(local, links);
    const { user } = options;
    const pieces = inPieces(pack(local, links), PIECE_BYTES);
    const first = await pieces.next();
    const second = await pieces.next();
    if (!first.done && second.done) {
      await this.#transport.json(
        change("PUT", `${this.#base}/files/archive`, {
          query: { path: remote, user },
          content: first.value,
        }),
      );
      return;
    }
    async function* whole(): AsyncGenerator<Uint8Array, void, undefined> {
      if (!first.done) yield first.value;
      if (!second.done) yield second.value;
      yield* pieces;
    }
    await this.#upload("/files/archive/uploads", given({ path: remote, gzip: false, user }), whole());
  }

  /**
   * Copies the content of a folder into the folder `local`, or a file to the path `local`. What
   * the sandbox sends is not trusted: names that lead out of `local`, links and devices, and more
   * than `maxBytes` (4 GiB) throw ArchiveError, and nothing is put in place. `links: "skip"`
   * leaves links out instead. A folder that is there is merged into; to copy a file, name the file
   * to write.
   */
  async download(
    remote: string,
    local: string,
    options: CopyOptions & { maxBytes?: number | undefined } = {},
  ): Promise<void> {
    const { user, links = "refuse", maxBytes = UNPACKED_BYTES } = options;
    const kind = user === "root" ? "directory" : (await this.stat(remote)).type;
    if (kind !== "directory") {
      if (await isFolder(local)) {
        throw invalidRequest(`${remote} is a file, and ${local} a folder.`, "Name the file to write in it.");
      }
      await place(limited(this.readStream(remote), maxBytes), local);
      return;
    }
    const pieces = this.#transport.pieces({
      method: "GET",
      path: `${this.#base}/files/archive`,
      query: { path: remote, gzip: true, user },
      accept: "application/x-tar",
    });
    await unpack(explained(pieces), local, links, maxBytes);
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await fs.stat(path)).isDirectory();
  } catch {
    return false;
  }
}

/** The pieces of an archive; why it may have been broken off. */
async function* explained(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* pieces;
  } catch (error) {
    if (!(error instanceof ConnectionError) || error.code !== "connection_error") throw error;
    const { message, code, details, retryable, cause } = error;
    const hint =
      'Perhaps something in the folder may not be read (user: "root" reads all), or it has more than 48 levels.';
    throw new ConnectionError(message, { code, details, retryable, hint, cause });
  }
}

async function* fileContent(path: string): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await fs.open(path);
  try {
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(PIECE_BYTES), 0, PIECE_BYTES, null);
      if (!bytesRead) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

/** The same bytes in pieces of that size, the last one shorter. */
export async function* inPieces(source: Bytes, size: number): AsyncGenerator<Uint8Array, void, undefined> {
  let parts: Uint8Array[] = [];
  let count = 0;
  for await (let piece of source) {
    while (count + piece.length >= size) {
      parts.push(piece.subarray(0, size - count));
      piece = piece.subarray(size - count);
      yield parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      parts = [];
      count = 0;
    }
    if (piece.length) parts.push(piece);
    count += piece.length;
  }
  if (count) yield Buffer.concat(parts);
}
