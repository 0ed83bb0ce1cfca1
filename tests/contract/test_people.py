# SPDX-License-Identifier: Apache-2.0
"""The owner, set-up, sessions, pages and the console's files: by a person and by strangers."""

import http.client
import json
import ssl
import subprocess
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from people import OTHER, PASSWORD, Browser, Program, link_of
from serving import Server

# --- set-up -----------------------------------------------------------------------------------


def test_the_first_start_prints_a_link_that_makes_the_owner_once(
    fresh: Callable[..., Server],
) -> None:
    server = fresh()
    token = link_of(server)
    browser = Browser(server)
    assert browser.get("/api/session").json == {"signedIn": False, "setup": True}
    page = browser.get(f"/setup?token={token}")
    assert page.status == 200
    fields = {"csrf": browser.token(page), "token": token, "name": "Ann", "repeat": PASSWORD}

    short = browser.form("/setup", {**fields, "password": "short", "repeat": "short"})
    assert short.status == 422 and b"at least 12 characters" in short.body
    assert b'id="password-wrong" role="alert"' in short.body
    differs = browser.form("/setup", {**fields, "password": OTHER})
    assert differs.status == 422 and b'id="repeat-wrong"' in differs.body

    done = browser.form("/setup", {**fields, "password": PASSWORD})
    assert done.status == 303 and done.headers["location"] == "/"
    session = browser.get("/api/session").json
    assert session["signedIn"] and session["name"] == "Ann" and not session["setup"]

    stranger = Browser(server)
    assert stranger.get(f"/setup?token={token}").status == 403
    again = {"token": token, "password": OTHER}
    assert stranger.fetch("POST", "/api/setup", again).status == 403
    assert stranger.sign_in(OTHER).status == 401
    assert stranger.sign_in().status == 200


def test_a_link_that_many_use_at_once_makes_one_owner(fresh: Callable[..., Server]) -> None:
    server = fresh()
    token = link_of(server)

    def use(i: int) -> int:
        body = {"token": token, "password": f"{PASSWORD} {i}"}
        return Browser(server).fetch("POST", "/api/setup", body).status

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(use, range(4)))
    assert sorted(statuses) == [200, 403, 403, 403]
    assert Browser(server).sign_in(f"{PASSWORD} {statuses.index(200)}").status == 200


def test_a_new_link_ends_the_one_before_and_lost_passwords_end_sessions(owned: Server) -> None:
    browser = Browser(owned)
    assert browser.sign_in().status == 200
    reset = ("owner", "reset", "--json", "--url", owned.url)
    links = [json.loads(owned.command(*reset).stdout)["link"] for _ in range(2)]
    tokens = [link.partition("token=")[2] for link in links]
    assert links[1].startswith(f"{owned.url}/setup?token=")
    other = Browser(owned)
    body = {"password": OTHER}
    assert other.fetch("POST", "/api/setup", {**body, "token": tokens[0]}).status == 403
    assert browser.get("/api/session").json["signedIn"]  # until it is used nothing changes
    assert other.fetch("POST", "/api/setup", {**body, "token": tokens[1]}).status == 200
    assert not browser.get("/api/session").json["signedIn"]
    assert browser.sign_in().status == 401
    assert browser.sign_in(OTHER).status == 200


def test_each_start_without_an_owner_has_a_link_of_its_own(fresh: Callable[..., Server]) -> None:
    server = fresh()
    first = link_of(server)
    server.stop()
    server.start()
    assert link_of(server) != first
    assert Browser(server).get(f"/setup?token={first}").status == 403


def test_the_store_holds_no_secret(owned: Server, program: Program) -> None:
    browser = Browser(owned)
    browser.sign_in()
    program.start()
    browser.fetch("POST", f"/api/approvals/{program.codes['userCode']}:approve", {})
    key = program.decrypt(program.poll()["encryptedKey"])
    owned.stop()  # so that the store's log is in it
    bytes_ = b"".join(path.read_bytes() for path in owned.home.glob("sealmark.db*"))
    secrets = [*browser.cookies.values(), browser.csrf, PASSWORD, key, key[-43:]]
    for secret in [*secrets, program.codes["deviceCode"]]:
        assert secret.encode() not in bytes_
    assert program.codes["userCode"].encode() in bytes_  # it was the right file
    owned.start()


# --- sessions ---------------------------------------------------------------------------------


def test_a_cookie_is_for_this_host_and_no_script(person: Browser) -> None:
    for name in ("sealmark_session", "sealmark_browser"):
        flags = person.flags[name]
        assert "HttpOnly" in flags and "SameSite=Strict" in flags and "Path=/;" in flags
        assert "Domain" not in flags and "Secure" not in flags  # plain HTTP here


def test_behind_tls_cookies_are_secure_and_links_have_the_public_name(
    fresh: Callable[..., Server], tmp_path: Path
) -> None:
    server = fresh("--public-url", "https://sealmark.example.org")
    browser = Browser(server)
    body = {"token": link_of(server), "password": PASSWORD}
    public = {"Host": "sealmark.example.org", "Origin": "https://sealmark.example.org"}
    assert browser.fetch("POST", "/api/setup", body, public).status == 200
    assert "Secure" in browser.flags["sealmark_session"]
    program = Program(server, tmp_path)
    program.start()
    request = {"Host": "sealmark.example.org"}
    page = browser.ask("GET", f"/approve?code={program.codes['userCode']}", headers=request)
    assert page.status == 200
    again = server.ask("POST", "/api/connect/start", program.body, key="", headers=request)
    assert again.json["verificationUri"].startswith("https://sealmark.example.org/approve?code=")


def test_over_tls_cookies_are_secure_and_the_origin_is_https(
    fresh: Callable[..., Server], tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    server = fresh("--tls-cert", str(cert), "--tls-key", str(key))
    body = json.dumps({"token": link_of(server), "password": PASSWORD})
    context = ssl.create_default_context(cafile=str(cert))
    answers = []
    for scheme in ("http", "https"):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=context, timeout=60
        )
        headers = {
            "Content-Type": "application/json",
            "Origin": f"{scheme}://127.0.0.1:{server.port}",
        }
        connection.request("POST", "/api/setup", body, headers)
        answers.append(connection.getresponse())
        answers[-1].read()
        connection.close()
    assert [a.status for a in answers] == [403, 200]
    assert all("; Secure" in c for c in answers[1].headers.get_all("Set-Cookie"))


def test_a_session_is_used_like_a_key_and_a_change_needs_its_token(person: Browser) -> None:
    assert person.fetch("GET", "/v1/me").json["kind"] == "person"
    made = person.fetch("POST", "/api/keys", {"name": "n"}, {"X-Sealmark-CSRF": ""})
    assert made.status == 403 and made.code == "forbidden"
    assert person.fetch("POST", "/api/keys", {"name": "n"}).status == 201
    for token in ("0" * 64, person.csrf[:-1], person.csrf + "0", person.csrf.upper()):
        headers = {"X-Sealmark-CSRF": token}
        assert person.fetch("DELETE", "/v1/sandboxes/x", None, headers).status == 403
        assert person.fetch("POST", "/v1/sandboxes", {}, headers).status == 403
    assert person.fetch("DELETE", "/v1/sandboxes/x").status == 404  # the token is right: no such


def test_a_session_of_another_browser_has_another_token(owned: Server) -> None:
    first, second = Browser(owned), Browser(owned)
    first.sign_in(), second.sign_in()
    assert first.csrf != second.csrf
    answer = first.fetch("POST", "/api/keys", {"name": "n"}, {"X-Sealmark-CSRF": second.csrf})
    assert answer.status == 403


def test_signing_in_never_takes_over_a_token_that_was_there(owned: Server) -> None:
    """Session fixation: a cookie put there by somebody else is worth nothing afterwards."""
    planted = "A" * 43
    browser = Browser(owned, {"sealmark_session": planted})
    browser.sign_in()
    assert browser.cookies["sealmark_session"] != planted
    other = Browser(owned, {"sealmark_session": planted})
    assert not other.get("/api/session").json["signedIn"]


def test_signing_out_ends_this_session_only(owned: Server) -> None:
    first, second = Browser(owned), Browser(owned)
    first.sign_in(), second.sign_in()
    kept = dict(first.cookies)
    assert first.fetch("DELETE", "/api/session").status == 200
    assert not Browser(owned, kept).get("/api/session").json["signedIn"]
    assert Browser(owned, kept).fetch("GET", "/v1/me").status == 401
    assert second.get("/api/session").json["signedIn"]
    page = second.get("/")
    assert second.form("/signout", {"csrf": "0" * 64}).status == 403
    assert second.form("/signout", {"csrf": second.token(page)}).headers["location"] == "/signin"
    assert not second.get("/api/session").json["signedIn"]


def test_another_password_ends_all_sessions_but_the_new_one(owned: Server) -> None:
    first, second = Browser(owned), Browser(owned)
    first.sign_in(), second.sign_in()
    body = {"currentPassword": OTHER, "password": OTHER}
    assert first.fetch("POST", "/api/owner:password", body).status == 401
    weak = {"currentPassword": PASSWORD, "password": "elevenchars"}
    assert first.fetch("POST", "/api/owner:password", weak).code == "invalid_request"
    body["currentPassword"] = PASSWORD
    answer = first.fetch("POST", "/api/owner:password", body)
    assert answer.status == 200, answer.body
    assert first.get("/api/session").json["csrf"] == answer.json["csrf"]
    assert not second.get("/api/session").json["signedIn"]
    assert second.sign_in().status == 401
    assert second.sign_in(OTHER).status == 200


def test_a_key_beats_a_cookie(person: Browser) -> None:
    """Whoever sends a key is that key, whatever cookie comes along."""
    key = person.server.make_key("--access", "read")
    headers = {"Authorization": f"Bearer {key}"}
    assert person.fetch("GET", "/v1/me", None, headers).json["kind"] == "key"
    assert person.fetch("GET", "/api/keys", None, headers).code == "permission_denied"
    headers = {"Authorization": "Bearer none"}
    assert person.fetch("GET", "/v1/me", None, headers).status == 401


def test_a_public_url_is_an_origin(has_machines: None, fresh: Callable[..., Server]) -> None:
    server = fresh()
    for url in (
        "sealmark.example.org",
        "ftp://x",
        "https://",
        "https://x/path",
        "https://a b",
        "https://u@x",
        "http://x?y",
        'https://"x',
    ):
        done = server.command("serve", "--check", "--listen", "127.0.0.1:0", "--public-url", url)
        assert done.returncode == 2 and "publicUrl" in done.stderr, url


# --- guessing ---------------------------------------------------------------------------------


def test_guessing_slows_down_and_a_known_browser_stays_open(owned: Server) -> None:
    known = Browser(owned)
    assert known.sign_in().status == 200
    guesser = Browser(owned)
    statuses = [guesser.sign_in(f"wrong password {i}").status for i in range(8)]
    assert statuses[0] == 401 and statuses[-1] == 429
    slow = guesser.sign_in()  # the right one, too soon: it must not be told
    assert slow.status == 429 and slow.json["error"]["retryAfterMs"] > 0
    assert int(slow.headers["retry-after"]) >= 1
    page = guesser.get("/signin")
    shown = guesser.form("/signin", {"csrf": guesser.token(page), "password": PASSWORD})
    assert shown.status == 429 and b"Too many attempts" in shown.body
    known.cookies.pop("sealmark_session")
    assert known.sign_in().status == 200  # from the same address


def test_a_made_up_browser_is_not_known(owned: Server) -> None:
    statuses = set()
    for i in range(8):
        statuses.add(Browser(owned, {"sealmark_browser": f"{i}" * 43}).sign_in("x" * 12).status)
    assert 429 in statuses


# --- other sites ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
        {"Host": "127.0.0.1:{port}@evil.example"},
    ],
    ids=lambda h: " ".join(f"{k}={v}" for k, v in h.items()),
)
def test_nothing_changes_from_another_site(
    person: Browser, program: Program, headers: dict[str, str]
) -> None:
    """Even with cookie and token, which it cannot have: signing in, keys, approvals, forms."""
    sent = {k: v.replace("{port}", str(person.server.port)) for k, v in headers.items()}
    assert person.fetch("POST", "/api/keys", {"name": "n"}, sent).status == 403
    assert person.fetch("DELETE", "/api/session", None, sent).status == 403
    stranger = Browser(person.server)
    answer = stranger.fetch("POST", "/api/session", {"password": PASSWORD}, sent)
    assert answer.status == 403 and not stranger.cookies
    program.start()
    page = person.get(f"/approve?code={program.codes['userCode']}")
    fields = {"csrf": person.token(page), "code": program.codes["userCode"], "decision": "approve"}
    assert person.form("/approve", fields, sent).status == 403
    assert program.poll()["status"] == "pending"
    page = stranger.get("/signin")
    signing = {"csrf": stranger.token(page), "password": PASSWORD}
    assert stranger.form("/signin", signing, sent).status == 403
    assert not stranger.get("/api/session").json["signedIn"]


def test_a_form_needs_the_cookie_that_its_page_gave(owned: Server) -> None:
    """Login CSRF: a token from another browser's page signs nobody in."""
    other, victim = Browser(owned), Browser(owned)
    token = other.token(other.get("/signin"))
    assert victim.form("/signin", {"csrf": token, "password": PASSWORD}).status == 403
    victim.get("/signin")
    assert victim.form("/signin", {"csrf": token, "password": PASSWORD}).status == 403
    assert not victim.get("/api/session").json["signedIn"]


def test_a_sign_in_in_json_says_that_it_is_json(owned: Server) -> None:
    """A page of another site can send text/plain without asking, application/json it cannot."""
    browser = Browser(owned)
    headers = {"Content-Type": "text/plain", "Origin": ""}
    assert browser.fetch("POST", "/api/session", {"password": PASSWORD}, headers).status == 403


def test_pages_run_nothing_and_fit_into_no_frame(person: Browser, program: Program) -> None:
    program.start()
    for path in ("/signin", "/", f"/approve?code={program.codes['userCode']}", "/setup"):
        answer = person.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "base-uri 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert b"<script" not in answer.body and b"style=" not in answer.body
    style = person.get("/pages.css")
    assert style.status == 200 and style.headers["content-type"].startswith("text/css")


def test_after_signing_in_one_stays_here(owned: Server) -> None:
    """No open redirect: what comes back is a code of ours, or nothing."""
    for code in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "x\r\nSet-Cookie: a=b",
    ):
        browser = Browser(owned)
        page = browser.get("/signin?" + urllib.parse.urlencode({"code": code}))
        assert b"evil" not in page.body
        fields = {"csrf": browser.token(page), "password": PASSWORD, "code": code}
        answer = browser.form("/signin", fields)
        assert answer.status == 303 and answer.headers["location"] == "/"
        assert "a" not in browser.cookies
    browser = Browser(owned)
    fields = {"csrf": browser.token(browser.get("/signin")), "password": PASSWORD}
    answer = browser.form("/signin", {**fields, "code": "bcdf-ghjk"})
    assert answer.headers["location"] == "/approve?code=BCDF-GHJK"


# --- forms and requests that are wrong --------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"password=%zz",
        b"password=%0",
        b"password=%00",
        b"password=\xff",
        b"password=%ff%fe",
        b"password=a&password=b",
        b"&".join(b"a%d=1" % i for i in range(40)),
        b"=" * 100,
        b"%",
    ],
    ids=lambda b: repr(b[:20]),
)
def test_a_form_that_is_none_is_refused(owned: Server, body: bytes) -> None:
    browser = Browser(owned)
    browser.get("/signin")
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": browser.origin}
    assert browser.ask("POST", "/signin", body, headers).status in (400, 403)
    headers["Content-Type"] = "multipart/form-data"
    assert browser.ask("POST", "/signin", body, headers).status == 400


def test_a_huge_form_is_refused(owned: Server) -> None:
    browser = Browser(owned)
    # refused by its head alone: small enough to be sent although nobody reads it
    answer = browser.form("/signin", {"password": "x" * 16_384})
    assert answer.status == 413


def test_long_passwords_and_cookies_are_no_passwords(owned: Server) -> None:
    browser = Browser(owned)
    assert browser.sign_in("x" * 257).status == 400
    assert browser.sign_in("x" * 256).status == 401
    browser.cookies = {"sealmark_session": "x" * 5000}
    assert not browser.get("/api/session").json["signedIn"]


# --- the console's files ----------------------------------------------------------------------


def test_the_consoles_files_are_served_and_no_others(
    fresh: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = tmp_path / "libexec" / "web"
    (web / "assets").mkdir(parents=True)
    (web / "index.html").write_text("<!doctype html><title>console</title>")
    (web / "assets" / "index-1a2b.js").write_text("export {};")
    (web / "assets" / "index-1a2b.js.map").write_text("{}")
    (web / ".secret.txt").write_text("xyzzy")
    (tmp_path / "libexec" / "outside.txt").write_text("xyzzy")
    (web / "link.txt").symlink_to("/etc/passwd")
    monkeypatch.setenv("SEALMARK_LIBEXEC", str(tmp_path / "libexec"))
    server = fresh()
    browser = Browser(server)
    script = browser.get("/assets/index-1a2b.js")
    assert script.status == 200 and script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    policy = script.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    same = browser.get("/assets/index-1a2b.js", **{"If-None-Match": script.headers["etag"]})
    assert same.status == 304 and same.body == b""
    for path in ("/", "/index.html", "/sandboxes/x", "/usage"):
        page = browser.get(path)
        assert page.status == 200 and b"<title>console" in page.body, path
        assert page.headers["cache-control"] == "no-cache"
    assert browser.get("/usage", Accept="*/*").code == "route_not_found"  # a program's mistake
    assert b"Sign in" in browser.get("/signin").body  # pages of the server win
    for path in (
        "/assets/nothing.js",
        "/assets/../index.html",
        "/../outside.txt",
        "/%2e%2e/outside.txt",
        "/..%2foutside.txt",
        "/.secret.txt",
        "/link.txt",
        "/assets/index-1a2b.js.map",
        "//etc/passwd.txt",
        "/index.html%00.js",
    ):
        answer = browser.get(path)
        assert answer.status == 404, path
        assert b"xyzzy" not in answer.body and b"root:" not in answer.body
    assert browser.ask("POST", "/index.html").status == 404
