// SPDX-License-Identifier: Apache-2.0
// The console: who is signed in, which page is shown, and the frame around it.
import "./style.css";

import { render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { onSessionEnd, session, signIn, signOut, type Session } from "./api";
import { Failure, Field } from "./ui";
import { Approvals } from "./approvals";
import { Audit } from "./audit";
import { Images } from "./images";
import { Keys } from "./keys";
import { SandboxPage } from "./sandbox";
import { Sandboxes } from "./sandboxes";
import { Usage } from "./usage";

const pages = [
  { path: "/", name: "Sandboxes" },
  { path: "/images", name: "Images" },
  { path: "/keys", name: "Keys" },
  { path: "/approvals", name: "Approvals" },
  { path: "/usage", name: "Usage" },
  { path: "/audit", name: "Audit log" },
];

function SignIn({ onDone }: { onDone: () => void }): JSX.Element {
  const [password, setPassword] = useState("");
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await signIn(password);
      onDone();
    } catch (why) {
      setError(why);
    }
  };
  return (
    <main class="signin">
      <h1>Sealmark</h1>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Password">
          <input
            type="password"
            autocomplete="current-password"
            autofocus
            required
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </Field>
        <Failure error={error} />
        <button class="primary">Sign in</button>
      </form>
    </main>
  );
}

/** The path, as the browser's own history has it; links are caught so that no page is loaded. */
function usePath(): [string, (path: string) => void] {
  const [path, setPath] = useState(location.pathname);
  const go = (to: string): void => {
    history.pushState(null, "", to);
    setPath(location.pathname);
    window.scrollTo(0, 0);
  };
  useEffect(() => {
    const back = (): void => setPath(location.pathname);
    const follow = (event: MouseEvent): void => {
      const link = (event.target as Element).closest("a");
      const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
      if (!plain || !link || link.origin !== location.origin || !link.dataset["page"]) return;
      event.preventDefault();
      go(link.pathname);
    };
    window.addEventListener("popstate", back);
    document.addEventListener("click", follow);
    return () => {
      window.removeEventListener("popstate", back);
      document.removeEventListener("click", follow);
    };
  }, []);
  return [path, go];
}

function Page({ path, go }: { path: string; go: (path: string) => void }): JSX.Element {
  const sandbox = /^\/sandboxes\/([0-9a-f-]{36})$/.exec(path)?.[1];
  if (sandbox) return <SandboxPage key={sandbox} id={sandbox} go={go} />;
  if (path === "/images") return <Images />;
  if (path === "/keys") return <Keys />;
  if (path === "/approvals") return <Approvals />;
  if (path === "/usage") return <Usage />;
  if (path === "/audit") return <Audit />;
  return <Sandboxes go={go} />;
}

function App(): JSX.Element {
  const [who, setWho] = useState<Session | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [path, go] = usePath();
  const look = (): void => {
    session().then(setWho, setError);
  };

  useEffect(() => {
    onSessionEnd(() => setWho({ signedIn: false, setup: false }));
    look();
  }, []);
  if (error) return <Failure error={error} />;
  if (!who) return <p class="loading">Loading…</p>;
  if (who.setup)
    return (
      <main class="signin">
        <h1>Sealmark</h1>
        <p>This server has no owner yet. Open the one-time link that it printed when it started.</p>
      </main>
    );
  if (!who.signedIn) return <SignIn onDone={look} />;
  return (
    <>
      <header class="top">
        <a class="brand" href="/" data-page="1">
          Sealmark
        </a>
        <nav aria-label="Pages">
          {pages.map((page) => {
            const here = page.path === path || (page.path === "/" && path.startsWith("/sandboxes"));
            return (
              <a
                key={page.path}
                href={page.path}
                data-page="1"
                aria-current={here ? "page" : undefined}
              >
                {page.name}
              </a>
            );
          })}
        </nav>
        <button type="button" class="quiet" onClick={() => void signOut().then(look, setError)}>
          Sign out
        </button>
      </header>
      <main>
        <Page path={path} go={go} />
      </main>
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
