// SPDX-License-Identifier: Apache-2.0 - sandboxes of a Sealmark server.

export type { Links } from "./archive.js";
export {
  ArchiveError,
  AuthenticationError,
  BuildError,
  CommandError,
  ConflictError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  SealmarkError,
  ServiceUnavailableError,
} from "./errors.js";
export { type CopyOptions, Files } from "./files.js";
export { Images, type ImageSource, type Recipe } from "./images.js";
export type { Json } from "./json.js";
export type { CreateOptions, Network, SandboxOptions, UpdateOptions } from "./options.js";
export { Page } from "./page.js";
export { Process } from "./processes.js";
export type { CommandOptions, Query } from "./protocol.js";
export type {
  CommandEvent,
  CommandResult,
  Exited,
  FileEntry,
  FileEvent,
  Image,
  LogLine,
  Output,
  Started,
  Truncated,
} from "./records.js";
export { type ListOptions, Runtime, Runtime as Sealmark, Sandboxes, type UsageOptions } from "./runtime.js";
export { type ExecOptions, Sandbox, type SpawnOptions, type WaitState } from "./sandbox.js";
export type { RuntimeOptions, Settings } from "./settings.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
export { VERSION } from "./version.js";
export { Watch, Watches, type WatchOptions } from "./watches.js";
