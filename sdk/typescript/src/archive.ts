// SPDX-License-Identifier: Apache-2.0 - folders as tar: packed without following links, unpacked in place.

import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGunzip, gzipSync } from "node:zlib";

import { SealmarkError } from "./errors.js";
import { isRecord } from "./json.js";
import { PIECE_BYTES } from "./protocol.js";
import { padding, readTar, TAR_END, tarHeader, unsafe } from "./tar.js";

// An archive that comes from a sandbox was written by whoever owned the sandbox. It is unpacked
// into a new folder beside the target, entry by entry, and only folders and plain files are taken;
// a link, a device, a name with `..` or an absolute name ends it. With no link among what was
// unpacked, no entry can lead outside. When all of it is there it is moved into its place; a
// target that exists already is merged into, and a link on the way there is refused too.

/** What to do with links and the like: `refuse` all of it, or `skip` them. */
export type Links = "refuse" | "skip";

export const UNPACKED_BYTES = 4 * 2 ** 30;
const UNPACKED_ENTRIES = 1_000_000;
const DEPTH = 256;
const READ_BYTES = 1 << 20;

/** The content of a folder as tar; without `times` the same content is the same bytes. */
export async function* pack(
  folder: string,
  links: Links,
  times = true,
): AsyncGenerator<Uint8Array, void, undefined> {
  const stack = [""];
  for (let prefix = stack.pop(); prefix !== undefined; prefix = stack.pop()) {
    const entries = await fs.readdir(path.join(folder, prefix), { withFileTypes: true });
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      const name = prefix + entry.name;
      const full = path.join(folder, name);
      if (entry.isDirectory()) {
        const { mode, mtimeMs } = await fs.lstat(full);
        yield tarHeader({ name, kind: "directory", mode, size: 0 }, times ? Math.floor(mtimeMs / 1000) : 0);
        stack.push(`${name}/`);
      } else if (entry.isFile()) {
        yield* packFile(name, full, times);
      } else if (links === "refuse") {
        throw unsafe(
          `${full} is neither a file nor a folder.`,
          'Remove it, or leave such entries out with links: "skip".',
        );
      }
    }
  }
  yield TAR_END;
}

async function exists(file: string): Promise<boolean> {
  try {
    await fs.lstat(file);
    return true;
  } catch {
    return false;
  }
}

/** Whether a folder can be packed, before anything of it is sent. */
export async function checkPack(folder: string, links: Links): Promise<void> {
  const stack = [folder];
  for (let here = stack.pop(); here !== undefined; here = stack.pop()) {
    for (const entry of await fs.readdir(here, { withFileTypes: true })) {
      const full = path.join(here, entry.name);
      // what is no UTF-8 is read with this letter in its place, and is not found again
      if (entry.name.includes("\ufffd") && !(await exists(full))) {
        throw unsafe(`A name in ${here} is no UTF-8.`);
      }
      if (entry.isDirectory()) stack.push(full);
      else if (!entry.isFile() && links === "refuse") {
        throw unsafe(
          `${full} is neither a file nor a folder.`,
          'Remove it, or leave such entries out with links: "skip".',
        );
      }
    }
  }
}

async function* packFile(
  name: string,
  full: string,
  times: boolean,
): AsyncGenerator<Uint8Array, void, undefined> {
  // what has become a link since is not followed
  const file = await fs.open(full, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  try {
    const { mode, size, mtimeMs } = await file.stat();
    yield tarHeader({ name, kind: "file", mode, size }, times ? Math.floor(mtimeMs / 1000) : 0);
    for (let left = size; left > 0; ) {
      const length = Math.min(left, READ_BYTES);
      // all four arguments: Node 18 reads nothing without them
      const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, null);
      if (!bytesRead) throw unsafe(`${full} became shorter while it was read.`);
      left -= bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    yield padding(size);
  } finally {
    await file.close();
  }
}

/** A folder that a build takes its files from: pieces by their digest, and what is in them. */
export interface Context {
  archive: { sha256: string; size: number; chunks: string[] };
  files: { path: string; sha256: string; size: number; mode: number }[];
  pieces: Map<string, Uint8Array>;
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export async function packContext(folder: string, links: Links): Promise<Context> {
  const parts: Uint8Array[] = [];
  for await (const piece of pack(folder, links, false)) parts.push(piece);
  const files: Context["files"] = [];
  for await (const entry of readTar(Readable.from([Buffer.concat(parts)], { objectMode: true }))) {
    if (entry.kind !== "file") continue;
    const digest = createHash("sha256");
    for await (const piece of entry.content) digest.update(piece);
    files.push({ path: entry.name, sha256: digest.digest("hex"), size: entry.size, mode: entry.mode });
  }
  const packed = gzipSync(Buffer.concat(parts), { level: 6 });
  const chunks: string[] = [];
  const pieces = new Map<string, Uint8Array>();
  for (let at = 0; at < packed.length; at += PIECE_BYTES) {
    const piece = packed.subarray(at, at + PIECE_BYTES);
    chunks.push(sha256(piece));
    pieces.set(sha256(piece), piece);
  }
  return { archive: { sha256: sha256(packed), size: packed.length, chunks }, files, pieces };
}

/** Unpacks what begins as gzip does. */
async function* gunzipped(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const iterator = source[Symbol.asyncIterator]();
  let head: Uint8Array = new Uint8Array();
  while (head.length < 2) {
    const next = await iterator.next();
    if (next.done) break;
    head = Buffer.concat([head, next.value]);
  }
  async function* whole(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield head;
      for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
    } finally {
      await iterator.return?.();
    }
  }
  if (head[0] !== 0x1f || head[1] !== 0x8b) {
    yield* whole();
    return;
  }
  const gunzip = createGunzip();
  pipeline(Readable.from(whole(), { objectMode: true }), gunzip, () => undefined);
  for await (const piece of gunzip as AsyncIterable<Uint8Array>) yield piece;
}

/** The relative path of an entry; null for the folder itself. */
function entryPath(name: string): string | null {
  if (name.startsWith("/") || /[\\\0]/.test(name) || (path.sep === "\\" && name.includes(":"))) {
    throw unsafe(`The archive has an entry named ${JSON.stringify(name)}.`);
  }
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || parts.length > DEPTH) {
    throw unsafe(`The archive has an entry that leaves its folder: ${JSON.stringify(name)}.`);
  }
  return parts.length ? parts.join("/") : null;
}

async function unpackInto(
  source: AsyncIterable<Uint8Array>,
  root: string,
  links: Links,
  most: number,
): Promise<void> {
  const modes: [string, number][] = [];
  let left = most;
  let count = 0;
  for await (const entry of readTar(source)) {
    if (++count > UNPACKED_ENTRIES) throw unsafe(`The archive has more than ${UNPACKED_ENTRIES} entries.`);
    const relative = entryPath(entry.name);
    if (entry.kind === "directory") {
      if (relative === null) continue;
      await fs.mkdir(path.join(root, relative), { recursive: true });
      modes.push([path.join(root, relative), entry.mode]);
      continue;
    }
    if (entry.kind !== "file") {
      if (links === "skip" && (entry.kind === "symlink" || entry.kind === "hardlink")) continue;
      throw unsafe(
        `${JSON.stringify(entry.name)} in the archive is neither a file nor a folder.`,
        entry.kind === "symlink" ? 'Leave links out with links: "skip".' : undefined,
      );
    }
    if (relative === null) throw unsafe("The archive has a file without a name.");
    left -= entry.size;
    if (left < 0) throw unsafe(`The archive holds more than ${most} bytes.`, "Raise maxBytes.");
    const full = path.join(root, relative);
    await fs.mkdir(path.dirname(full), { recursive: true });
    await fs.rm(full, { force: true }); // a name twice: the last counts
    const file = await fs.open(full, "wx", 0o600);
    try {
      for await (const piece of entry.content) await file.writeFile(piece);
      await file.chmod(entry.mode & 0o777);
    } finally {
      await file.close();
    }
  }
  // at the end, since a folder may be read-only; it stays ours to go through
  for (const [folder, mode] of modes.reverse()) await fs.chmod(folder, (mode & 0o777) | 0o700);
}

async function lstat(name: string): Promise<Awaited<ReturnType<typeof fs.lstat>> | null> {
  try {
    return await fs.lstat(name);
  } catch (error) {
    if (isRecord(error) && error["code"] === "ENOENT") return null;
    throw error;
  }
}

/** Whether it can be moved there: no folder where a file is, and none through a link. */
async function checkMerge(source: string, target: string): Promise<void> {
  for (const entry of await fs.readdir(source, { withFileTypes: true })) {
    const [from, to] = [path.join(source, entry.name), path.join(target, entry.name)];
    const there = await lstat(to);
    if (!there) continue;
    if (entry.isDirectory() && !there.isDirectory()) throw unsafe(`${to} is in the way, and no folder.`);
    if (!entry.isDirectory() && there.isDirectory()) throw unsafe(`${to} is in the way, and a folder.`);
    if (entry.isDirectory()) await checkMerge(from, to);
  }
}

/** Moves what is in source into target, over files of the same name. */
async function merge(source: string, target: string): Promise<void> {
  for (const entry of await fs.readdir(source, { withFileTypes: true })) {
    const [from, to] = [path.join(source, entry.name), path.join(target, entry.name)];
    if (entry.isDirectory() && (await lstat(to))) await merge(from, to);
    else await fs.rename(from, to);
  }
}

/** Errors that the names and the content of an archive can make. */
const BROKEN = /^(Z_|ERR_INVALID_ARG_VALUE|ENAMETOOLONG|ENOTDIR|EISDIR|EEXIST|EINVAL|EILSEQ|ERR_FS_EISDIR)/;

/**
 * Unpacks a tar, packed with gzip or not, into a folder that is made if there is none. Throws
 * ArchiveError, with nothing put in place, when it is broken, holds more than `most` bytes, or
 * has entries that are neither files nor folders.
 */
export async function unpack(
  source: AsyncIterable<Uint8Array>,
  folder: string,
  links: Links,
  most: number = UNPACKED_BYTES,
): Promise<void> {
  const target = path.resolve(folder);
  const there = await lstat(target);
  if (there && !there.isDirectory()) throw unsafe(`${target} is no folder.`);
  await fs.mkdir(path.dirname(target), { recursive: true });
  const fresh = await fs.mkdtemp(path.join(path.dirname(target), ".sealmark-"));
  try {
    try {
      await unpackInto(gunzipped(limited(source, most)), fresh, links, most);
    } catch (error) {
      const code = isRecord(error) ? error["code"] : undefined;
      if (error instanceof SealmarkError || typeof code !== "string" || !BROKEN.test(code)) throw error;
      throw unsafe(`The archive is broken: ${code}.`);
    }
    if (there) {
      await checkMerge(fresh, target);
      await merge(fresh, target);
    } else {
      await fs.chmod(fresh, 0o755);
      await fs.rename(fresh, target);
    }
  } finally {
    await fs.rm(fresh, { recursive: true, force: true });
  }
}

/** No more than so many bytes. */
export async function* limited(
  source: AsyncIterable<Uint8Array>,
  most: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = most;
  for await (const piece of source) {
    left -= piece.length;
    if (left < 0) throw unsafe(`It is more than ${most} bytes.`, "Raise maxBytes.");
    yield piece;
  }
}

/** Writes a file under another name first: a copy that breaks off leaves no short file. */
export async function place(source: AsyncIterable<Uint8Array>, local: string): Promise<void> {
  const target = path.resolve(local);
  await fs.mkdir(path.dirname(target), { recursive: true });
  const fresh = path.join(path.dirname(target), `.sealmark-${randomBytes(6).toString("hex")}`);
  try {
    await fs.writeFile(fresh, source, { flag: "wx", mode: 0o644 });
    await fs.rename(fresh, target);
  } catch (error) {
    await fs.rm(fresh, { force: true });
    throw error;
  }
}
