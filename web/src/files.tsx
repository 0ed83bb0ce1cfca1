// SPDX-License-Identifier: Apache-2.0
// Folders of a sandbox, and their files to be saved.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { get, withQuery } from "./api";
import { plain } from "./command";
import { Empty, Failure, useLoad, when } from "./ui";

interface Entry {
  name: string;
  path: string;
  type: "file" | "directory" | "symlink" | "other";
  size: number;
  mode: string;
  modifiedAt: string;
  owner: string | null;
}

export function Files({ base }: { base: string }): JSX.Element {
  const [path, setPath] = useState("/workspace");
  const { value, error } = useLoad<{ data?: Entry[]; entries?: Entry[] }>(
    (signal) => get(withQuery(`${base}/files/list`, { path, hidden: true }), signal),
    [path],
  );
  const entries = value?.data ?? value?.entries ?? [];
  const up = path.replace(/\/[^/]*$/, "") || "/";
  return (
    <>
      <div class="row">
        <button type="button" disabled={path === "/"} onClick={() => setPath(up)}>
          Up
        </button>
        <code>{plain(path)}</code>
      </div>
      <Failure error={error} />
      {value && entries.length === 0 && <Empty>This folder is empty.</Empty>}
      {entries.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th class="number">Size</th>
                <th>Mode</th>
                <th>Owner</th>
                <th>Changed</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={entry.path}>
                  <td class="mono">
                    {entry.type === "directory" && (
                      <button type="button" class="link" onClick={() => setPath(entry.path)}>
                        {plain(entry.name)}/
                      </button>
                    )}
                    {entry.type === "file" && (
                      <a
                        href={withQuery(`${base}/files/content`, { path: entry.path })}
                        download={plain(entry.name)}
                      >
                        {plain(entry.name)}
                      </a>
                    )}
                    {entry.type !== "directory" && entry.type !== "file" && plain(entry.name)}
                  </td>
                  <td class="number">{entry.type === "file" ? `${entry.size} B` : ""}</td>
                  <td class="mono">{entry.mode}</td>
                  <td>{entry.owner ?? ""}</td>
                  <td class="time">{when(entry.modifiedAt)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
