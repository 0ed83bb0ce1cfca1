// SPDX-License-Identifier: Apache-2.0
// Images: versions and tags, builds with their logs, new builds.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { call, get, lines, send, type Page } from "./api";
import { plain } from "./command";
import { Action, Dialog, Empty, Failure, Field, State, useLoad, when } from "./ui";

interface Image {
  id: string;
  name: string;
  version: string | number | null;
  reference: string | null;
  tags: string[];
  state: string;
  error: string | null;
  sizeBytes?: number;
  createdAt: string;
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function Build({
  onDone,
  onClose,
}: {
  onDone: (made: Image) => void;
  onClose: () => void;
}): JSX.Element {
  const [kind, setKind] = useState("recipe");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? "");
    const body: Record<string, unknown> = { name: text("name").trim() };
    if (kind === "recipe")
      body["recipe"] = {
        base: text("base").trim() || "default",
        apt: words(text("apt")),
        pip: words(text("pip")),
        npm: words(text("npm")),
        commands: text("commands")
          .split("\n")
          .filter((line) => line.trim()),
      };
    else body["dockerfile"] = text("dockerfile");
    setBusy(true);
    try {
      onDone(await call<Image>("POST", "/v1/images", body));
    } catch (why) {
      setError(why);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Build an image" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Name" help="As cs101-grader; a good build is its next version.">
          <input name="name" maxLength={63} required autofocus />
        </Field>
        <div class="row">
          {["recipe", "Dockerfile"].map((one) => (
            <label class="check" key={one}>
              <input
                type="radio"
                name="kind"
                checked={kind === one}
                onChange={() => setKind(one)}
              />
              from a {one}
            </label>
          ))}
        </div>
        {kind === "recipe" ? (
          <>
            <Field label="Base image">
              <input name="base" placeholder="default" />
            </Field>
            <Field label="Debian packages">
              <input name="apt" placeholder="openjdk-21-jdk-headless" />
            </Field>
            <Field label="Python packages">
              <input name="pip" placeholder="pytest hypothesis" />
            </Field>
            <Field label="npm packages">
              <input name="npm" />
            </Field>
            <Field label="Commands" help="One a line, run as root.">
              <textarea name="commands" spellcheck={false} />
            </Field>
          </>
        ) : (
          <Field
            label="Dockerfile"
            help="FROM an image of this server, RUN, ENV, WORKDIR, USER, ARG."
          >
            <textarea name="dockerfile" spellcheck={false} required placeholder="FROM default" />
          </Field>
        )}
        <Failure error={error} />
        <button class="primary" disabled={busy}>
          Build
        </button>
      </form>
    </Dialog>
  );
}

function Log({ image }: { image: Image }): JSX.Element {
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>(null);
  const output = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const abort = new AbortController();
    const follow = async (): Promise<void> => {
      const path = `/v1/images/${image.id}/logs?follow=true`;
      const response = await send("GET", path, undefined, abort.signal);
      for await (const event of lines<{
        type: string;
        text?: string;
        line?: string;
        data?: string;
      }>(response))
        if (event.type === "line")
          setText((before) =>
            `${before}${plain(event.text ?? event.line ?? event.data ?? "").trimEnd()}\n`.slice(
              -200_000,
            ),
          );
    };
    setText("");
    follow().catch((why: unknown) => {
      if (!abort.signal.aborted) setError(why);
    });
    return () => abort.abort();
  }, [image.id]);
  useEffect(() => {
    output.current?.scrollTo(0, output.current.scrollHeight);
  }, [text]);
  return (
    <section class="card">
      <h2>The log of {image.reference ?? image.name}</h2>
      <Failure error={error} />
      <pre class="output" ref={output}>
        {text || "Nothing was logged."}
      </pre>
    </section>
  );
}

function Tag({
  of,
  onDone,
  onClose,
}: {
  of: Image;
  onDone: () => void;
  onClose: () => void;
}): JSX.Element {
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    try {
      await call("POST", `/v1/images/${of.id}:tag`, { tag: String(form.get("tag")).trim() });
      onDone();
      onClose();
    } catch (why) {
      setError(why);
    }
  };
  return (
    <Dialog title={`Tag ${of.reference ?? of.name}`} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Tag" help="It moves here from any other version that has it.">
          <input name="tag" maxLength={63} required autofocus />
        </Field>
        <Failure error={error} />
        <button class="primary">Tag</button>
      </form>
    </Dialog>
  );
}

export function Images(): JSX.Element {
  const { value, error, reload } = useLoad<Page<Image>>(
    (signal) => get("/v1/images?limit=100", signal),
    [],
    3000,
  );
  const [building, setBuilding] = useState(false);
  const [shown, setShown] = useState<Image | null>(null);
  const [tagging, setTagging] = useState<Image | null>(null);
  const [wrong, setWrong] = useState<unknown>(null);
  return (
    <>
      <div class="row spread">
        <h1>Images</h1>
        <button type="button" class="primary" onClick={() => setBuilding(true)}>
          Build an image
        </button>
      </div>
      <Failure error={wrong ?? error} />
      {value?.data.length === 0 && (
        <div class="card">
          <Empty>There is no image. `sealmark setup` makes the default one.</Empty>
        </div>
      )}
      {value && value.data.length > 0 && (
        <div class="card scroll">
          <table>
            <thead>
              <tr>
                <th>Image</th>
                <th>State</th>
                <th>Tags</th>
                <th class="number">Size</th>
                <th>Made</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {value.data.map((image) => (
                <tr key={image.id}>
                  <td>{image.reference ?? image.name}</td>
                  <td>
                    <State state={image.state} />
                    {image.error && <div class="fine">{plain(image.error)}</div>}
                  </td>
                  <td>
                    {image.tags.map((tag) => (
                      <span class="label" key={tag}>
                        {tag}
                      </span>
                    ))}
                  </td>
                  <td class="number">
                    {image.sizeBytes ? `${(image.sizeBytes / 1048576).toFixed(0)} MiB` : "–"}
                  </td>
                  <td class="time">{when(image.createdAt)}</td>
                  <td>
                    <div class="row">
                      <button type="button" onClick={() => setShown(image)}>
                        Log
                      </button>
                      {image.state === "ready" && (
                        <button type="button" onClick={() => setTagging(image)}>
                          Tag
                        </button>
                      )}
                      <Action
                        run={async () => {
                          await call("POST", `/v1/images/${image.id}:delete`);
                          reload();
                        }}
                        onError={setWrong}
                        kind="danger"
                        confirm={`Delete ${image.reference ?? image.name}? Sandboxes that run keep it.`}
                      >
                        {image.state === "ready" || image.state === "failed" ? "Delete" : "Cancel"}
                      </Action>
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown && <Log key={shown.id} image={shown} />}
      {building && (
        <Build
          onClose={() => setBuilding(false)}
          onDone={(made) => {
            setBuilding(false);
            setShown(made);
            reload();
          }}
        />
      )}
      {tagging && <Tag of={tagging} onDone={reload} onClose={() => setTagging(null)} />}
    </>
  );
}
