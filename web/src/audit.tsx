// SPDX-License-Identifier: Apache-2.0
// Who did what, the newest first.
import type { JSX } from "preact";

import { get, withQuery, type Page } from "./api";
import { Empty, Failure, useLoad, usePages, when } from "./ui";

interface Entry {
  seq: number;
  time: string;
  who: string;
  action: string;
  target: string;
  detail: Record<string, unknown>;
  address: string;
  requestId: string;
}

export function Audit(): JSX.Element {
  const { cursor, pager } = usePages();
  const { value, error } = useLoad<Page<Entry>>(
    (signal) => get(withQuery("/api/audit", { limit: 50, cursor }), signal),
    [cursor],
    cursor ? 0 : 10000,
  );
  return (
    <>
      <h1>Audit log</h1>
      <Failure error={error} />
      {value?.data.length === 0 && (
        <div class="card">
          <Empty>Nothing has happened yet.</Empty>
        </div>
      )}
      {value && value.data.length > 0 && (
        <div class="card scroll">
          <table>
            <thead>
              <tr>
                <th>When</th>
                <th>Who</th>
                <th>What</th>
                <th>From</th>
              </tr>
            </thead>
            <tbody>
              {value.data.map((entry) => (
                <tr key={entry.seq}>
                  <td class="time">{when(entry.time)}</td>
                  <td>{entry.who}</td>
                  <td>
                    {entry.action} <span class="mono">{entry.target}</span>
                    {Object.entries(entry.detail).map(([name, of]) => (
                      <div class="fine" key={name}>
                        {name}: {typeof of === "string" ? of : JSON.stringify(of)}
                      </div>
                    ))}
                  </td>
                  <td>{entry.address}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pager({ next: value?.nextCursor, back: "Newer", on: "Older" })}
    </>
  );
}
