// SPDX-License-Identifier: Apache-2.0 - the calls of the cases, in the words of this SDK.

import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";

import {
  ArchiveError,
  AuthenticationError,
  BuildError,
  CommandError,
  type CommandEvent,
  ConflictError,
  ConnectionError,
  type ExecOptions,
  type Image,
  type ImageSource,
  InvalidRequestError,
  type Json,
  NotFoundError,
  PermissionDeniedError,
  Process,
  RateLimitError,
  Runtime,
  Sandbox,
  SealmarkError,
  ServiceUnavailableError,
  type SpawnOptions,
  Terminal,
  type WaitState,
  Watch,
} from "../src/index.js";
import { Transport } from "../src/transport.js";

export interface Step {
  call: string;
  on?: string | { sandbox: string };
  args?: Json;
  as?: string;
  expect?: unknown;
  error?: Json;
}

export interface Case {
  name: string;
  settings?: { maxRetries?: number; timeoutMs?: number; waitForCapacityMs?: number };
  steps: Step[];
  server: unknown;
}

const CLASSES: [abstract new (...args: never[]) => SealmarkError, string][] = [
  [ArchiveError, "archive"],
  [AuthenticationError, "authentication"],
  [BuildError, "build"],
  [CommandError, "command"],
  [ConflictError, "conflict"],
  [ConnectionError, "connection"],
  [InvalidRequestError, "invalidRequest"],
  [NotFoundError, "notFound"],
  [PermissionDeniedError, "permission"],
  [RateLimitError, "rateLimit"],
  [ServiceUnavailableError, "serviceUnavailable"],
];

function className(error: SealmarkError): string | undefined {
  return CLASSES.find(([kind]) => error instanceof kind)?.[1];
}

export function shownError(error: SealmarkError): Json {
  const { code, status, message, hint, details, requestId, retryable, retryAfterMs } = error;
  const command = error instanceof CommandError ? { exitCode: error.exitCode, stderr: error.stderr } : {};
  return {
    class: className(error),
    code,
    status,
    message,
    hint,
    details,
    requestId,
    retryable,
    retryAfterMs,
    ...command,
  };
}

/** Whether an object has what is wanted of it; everything else must be the same. */
export function holds(wanted: unknown, found: unknown): boolean {
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(found) &&
      wanted.length === found.length &&
      wanted.every((entry, at) => holds(entry, found[at]))
    );
  }
  if (typeof wanted === "object" && wanted !== null) {
    if (typeof found !== "object" || found === null || Array.isArray(found)) return false;
    const fields = new Map(Object.entries(found));
    return Object.entries(wanted).every(([name, value]) => fields.has(name) && holds(value, fields.get(name)));
  }
  return Object.is(wanted, found);
}

class Own extends Error {}

async function temporary<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await fs.mkdtemp(path.join(tmpdir(), "sealmark-"));
  try {
    return await work(folder);
  } finally {
    await fs.rm(folder, { recursive: true });
  }
}

async function fill(folder: string, tree: Record<string, string>, link?: string): Promise<void> {
  for (const [name, content] of Object.entries(tree)) await fs.writeFile(path.join(folder, name), content);
  if (link !== undefined) await fs.symlink("/etc/passwd", path.join(folder, link));
}

async function tree(folder: string, prefix = ""): Promise<Record<string, string>> {
  const out: Record<string, string> = {};
  for (const entry of await fs.readdir(path.join(folder, prefix), { withFileTypes: true })) {
    const name = prefix + entry.name;
    if (entry.isDirectory()) Object.assign(out, await tree(folder, `${name}/`));
    else out[name] = await fs.readFile(path.join(folder, name), "utf8");
  }
  return out;
}

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const entry of source) out.push(entry);
  return out;
}

const ids = (entries: { id: string }[]): Json => ({ ids: entries.map((entry) => entry.id) });

function shown(result: unknown): unknown {
  if (result instanceof Sandbox) {
    const { id, state, name, labels, expiresAt, stopReason } = result;
    const charged = "chargedMicros" in result.info ? { chargedMicros: result.chargedMicros } : {};
    const held = "heldMicros" in result.info ? { heldMicros: result.heldMicros } : {};
    return { ...result.info, id, state, name, labels, expiresAt, stopReason, ...charged, ...held };
  }
  if (result instanceof Process) return { id: result.id, state: result.state, exitCode: result.exitCode };
  if (result instanceof Terminal) {
    return { processId: result.processId, state: result.state, exitCode: result.exitCode };
  }
  if (result instanceof Watch) {
    const { id, path, cursor, exitReason, paused, incomplete, notices } = result;
    return { id, path, cursor, exitReason, paused, incomplete, notices: [...notices] };
  }
  if (Array.isArray(result)) return result.map(shown);
  if (result instanceof Uint8Array) return { base64: Buffer.from(result).toString("base64") };
  return result;
}

const octal = (mode: unknown): number | undefined =>
  typeof mode === "string" ? parseInt(mode, 8) : undefined;

/** What the steps of a case need of the arguments that they name. */
interface Args {
  argv?: string[];
  buildArgs?: Record<string, string>;
  cols: number;
  command?: string;
  cursor: number;
  depth: number;
  eof?: boolean;
  follow?: boolean;
  from: string;
  id: string;
  limit: number;
  link?: string;
  links?: "skip";
  log?: boolean;
  maxBytes?: number;
  mode?: string;
  name: string;
  overwrite: boolean;
  path: string;
  recursive?: boolean;
  reference: string;
  remote: string;
  rows: number;
  seconds: number;
  signal: string;
  state: WaitState;
  stdinBase64?: string;
  tag: string;
  text: string;
  throws?: boolean;
  timeoutMs?: number;
  timeoutSeconds: number;
  to: string;
  tree: Record<string, string>;
  waitMs?: number;
  zeros?: number;
}

/** A client, and the calls of the cases on it. */
export class Client {
  readonly #runtime: Runtime;
  readonly #known = new Map<string, unknown>();

  constructor(url: string, settings: Case["settings"] = {}, apiKey = "test-key") {
    this.#runtime = new Runtime({ timeoutMs: 20_000, ...settings, apiKey, baseUrl: url });
  }

  async call(step: Step): Promise<unknown> {
    const result = await this.#call(step, (step.args ?? {}) as unknown as Args & Json);
    if (step.as !== undefined) this.#known.set(step.as, result);
    return shown(result);
  }

  #on(step: Step): unknown {
    if (typeof step.on === "string") return this.#known.get(step.on);
    const info = { id: step.on?.sandbox, state: "running" };
    return new Sandbox(new Transport(this.#runtime.settings), info);
  }

  #box(step: Step): Sandbox {
    const box = this.#on(step);
    assert.ok(box instanceof Sandbox);
    return box;
  }

  #process(step: Step): Process {
    const found = this.#on(step);
    assert.ok(found instanceof Process);
    return found;
  }

  async #terminal(verb: string | undefined, terminal: unknown, args: Args & Json): Promise<unknown> {
    assert.ok(terminal instanceof Terminal);
    const { timeoutMs } = args;
    const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    switch (verb) {
      case "show":
        return terminal;
      case "write":
        return terminal.write(args.zeros === undefined ? args.text : new Uint8Array(args.zeros));
      case "resize":
        return terminal.resize(args.cols, args.rows);
      case "recv": {
        const piece = await terminal.recv({ timeoutMs });
        return piece && decode(piece);
      }
      case "until": {
        // reads until the text has come
        for (let seen = ""; !seen.includes(args.text); ) {
          const piece = await terminal.recv({ timeoutMs: 60_000 });
          assert.ok(piece, seen);
          seen += decode(piece);
        }
        return;
      }
      case "rest":
        return decode(Buffer.concat(await all(terminal)));
      case "count":
        return (await all(terminal)).reduce((sum, piece) => sum + piece.length, 0);
      case "close":
        return terminal.close();
      default:
        throw new Error(`no call is named terminal.${verb}`);
    }
  }

  async #watch(verb: string | undefined, watch: unknown, args: Args & Json): Promise<unknown> {
    assert.ok(watch instanceof Watch);
    const { waitMs } = args;
    switch (verb) {
      case "show":
        return watch;
      case "events":
        return all(watch);
      case "first":
        // the first event of a reader who then leaves; of one path, if it is named
        for await (const event of watch) if (event.path === (args.path ?? event.path)) return event;
        throw new Error("no event came");
      case "getNewEvents":
        return watch.getNewEvents({ waitMs });
      case "stop":
        return watch.stop();
      case "block":
        return watch[Symbol.asyncDispose]();
      default:
        throw new Error(`no call is named watch.${verb}`);
    }
  }

  async #call(step: Step, args: Args & Json): Promise<unknown> {
    const { sandboxes, images } = this.#runtime;
    const [area, verb] = step.call.split(".");
    if (area === "terminal" && verb) return this.#terminal(verb, this.#on(step), args);
    if (area === "watch") return this.#watch(verb, this.#on(step), args);
    if (step.call === "files.watches.list") return this.#box(step).files.watches.list();
    if (step.call === "files.watches.stop") return this.#box(step).files.watches.stop(args.id);
    if (area === "files") return this.#file(verb, this.#box(step), args);
    switch (step.call) {
      case "me":
      case "limits":
        return this.#runtime[step.call]();
      case "usage":
        return this.#runtime.usage(args as object);
      case "create":
        return sandboxes.create(args as object);
      case "getOrCreate": {
        const { name, ...rest } = args;
        return sandboxes.getOrCreate(name, rest as object);
      }
      case "get":
        return sandboxes.get(args.id);
      case "list":
        return ids(await all(await sandboxes.list(args as object)));
      case "block":
        return this.#block(args);
      case "exec":
        return this.#exec(this.#box(step), args);
      case "execStream": {
        const events: CommandEvent[] = await all(
          this.#box(step).execStream(args.argv ?? args.command ?? "", args as object),
        );
        return events;
      }
      case "terminal":
        return this.#box(step).terminal(args as object);
      case "attach": {
        // a terminal of a process that was spawned
        const { id, sandboxId } = this.#process(step);
        const box = new Sandbox(new Transport(this.#runtime.settings), { id: sandboxId, state: "running" });
        return box.terminal({ ...(args as object), processId: id });
      }
      case "spawn":
        return this.#box(step).spawn(args.argv ?? args.command ?? "", args as SpawnOptions);
      case "processes":
        return ids(await this.#box(step).processes());
      case "process":
        return this.#box(step).process(args.id);
      case "process.output":
        return all(this.#process(step).output({ cursor: args.cursor }));
      case "process.wait":
        return this.#process(step).wait();
      case "process.write":
        return this.#process(step).write(args.text, { eof: args.eof });
      case "process.signal":
        return this.#process(step).signal(args.signal);
      case "process.kill":
        return this.#process(step).kill();
      case "process.resize":
        return this.#process(step).resize(args.cols, args.rows);
      case "pause":
      case "wake":
      case "restart":
      case "stop":
      case "delete":
        return this.#box(step)[step.call]();
      case "refresh": {
        const found = this.#on(step);
        return found instanceof Process ? found.refresh() : this.#box(step).refresh();
      }
      case "extend":
        return this.#box(step).extend(args.seconds);
      case "update":
        return this.#box(step).update(args as object);
      case "waitFor":
        return this.#box(step).waitFor(args.state, { timeoutSeconds: args.timeoutSeconds });
      case "images.build": {
        const { log, tree, link, ...source } = args;
        const lines: string[] = [];
        const onLog = log ? (line: { text: string }) => lines.push(line.text) : undefined;
        const image: Image = await temporary(async (folder) => {
          if (tree) await fill(folder, tree, link);
          const contextDir = tree ? folder : undefined;
          return images.build({ ...(source as object as ImageSource), contextDir }, { onLog });
        });
        return { ...image, log: lines };
      }
      case "images.get":
        return images.get(args.id);
      case "images.resolve":
        return images.resolve(args.reference);
      case "images.list":
        return ids(await all(await images.list(args as object)));
      case "images.tag":
        return images.tag(args.reference, args.tag);
      case "images.untag":
        return images.untag(args.reference, args.tag);
      case "images.delete":
        return images.delete(args.reference);
      default:
        throw new Error(`no call is named ${step.call}`);
    }
  }

  async #block({ throws, ...options }: Args & Json): Promise<Json> {
    try {
      await this.#runtime.sandboxes.use(options as object, () => {
        if (throws) throw new Own();
      });
    } catch (error) {
      if (error instanceof Own) return { raised: "own" };
      if (error instanceof SealmarkError) return { raised: className(error) };
      throw error;
    }
    return { raised: null };
  }

  async #exec(box: Sandbox, args: Args & Json): Promise<Json> {
    const seen = { stdout: "", stderr: "" };
    const { argv, command, follow, stdinBase64, ...rest } = args;
    const options: ExecOptions = rest as object;
    if (stdinBase64 !== undefined) options.stdin = Buffer.from(stdinBase64, "base64");
    if (follow) {
      options.onStdout = (piece) => (seen.stdout += piece);
      options.onStderr = (piece) => (seen.stderr += piece);
    }
    return { ...(await box.exec(argv ?? command ?? "", options)), seen };
  }

  async #file(verb: string | undefined, { files }: Sandbox, args: Args & Json): Promise<unknown> {
    const { links, maxBytes } = args;
    switch (verb) {
      case "write":
        return files.write(args.path, args.zeros === undefined ? args.text : new Uint8Array(args.zeros), {
          mode: octal(args.mode),
        });
      case "read":
        return files.read(args.path, { maxBytes });
      case "readText":
        return files.readText(args.path);
      case "list":
        return files.list(args.path, args as object);
      case "stat":
        return files.stat(args.path);
      case "exists":
        return files.exists(args.path);
      case "mkdir":
        return files.mkdir(args.path);
      case "rename":
        return files.rename(args.from, args.to, { overwrite: args.overwrite });
      case "chmod":
        return files.chmod(args.path, octal(args.mode) ?? 0);
      case "remove":
        return files.remove(args.path, { recursive: args.recursive });
      case "watch": {
        const { path, ...options } = args;
        return files.watch(path, options as object);
      }
      case "upload":
        return temporary(async (folder) => {
          await fill(folder, args.tree, args.link);
          await files.upload(folder, args.remote);
        });
      case "download":
        // the files that are there after it; none may be anywhere else, or after an error
        return temporary(async (folder) => {
          const target = path.join(folder, "parent", "target");
          try {
            await files.download(args.remote, target, { links, maxBytes });
          } catch (error) {
            assert.deepEqual(await tree(folder), {});
            assert.deepEqual(await fs.readdir(path.dirname(target)), []);
            throw error;
          }
          assert.deepEqual(await fs.readdir(path.dirname(target)), ["target"]);
          return tree(target);
        });
      case "downloadFile":
        return temporary(async (folder) => {
          await files.download(args.remote, path.join(folder, "file"));
          assert.deepEqual(await fs.readdir(folder), ["file"]);
          return fs.readFile(path.join(folder, "file"), "utf8");
        });
      default:
        throw new Error(`no call is named files.${verb}`);
    }
  }
}
