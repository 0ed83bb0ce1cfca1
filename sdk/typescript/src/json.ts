// SPDX-License-Identifier: Apache-2.0 - objects whose fields nobody has looked at yet.

/** An object of an answer; its fields are looked at before they are used. */
export type Json = Record<string, unknown>;

export function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Without the fields that are not given. */
export function given(fields: Json): Json {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
