/* SPDX-License-Identifier: Apache-2.0 - sealmark login and logout: a person approves a key. */
#include "cli/remote.h"
#include "cli/remote_unseal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/*
 * The server is asked for a key, with the public half of a key pair made for this. A person opens
 * the link that it answers, and decides. Until then we ask every few seconds; what comes at the end
 * is the new key, which only our private half can read. It is kept before the server is told that
 * it arrived, so that it is never lost; when we are interrupted, the request is taken back.
 */
#define WAIT_MS (INT64_C(20) * 60 * 1000) /* requests live 15 minutes */
#define ASK_MS  5000

struct login_options {
	struct remote_options remote;
	const char *purpose, *access;
	int64_t daily;
	bool with_key;
};

/* A request for a key under way. */
struct login {
	struct remote *r;
	struct unseal *unseal;
	char device[256];
	bool json;
};

static int ask(struct login *l, const char *path, bool anyway, json_t **out, struct error *err)
{
	return remote_call(l->r,
		&(struct remote_call){.method = "POST",
			.path = path,
			.body = json_pack("{ss}", "deviceCode", l->device),
			.anyway = anyway,
			.no_key = true,
			.about = "login"},
		out, err);
}

static int begin(struct login *l, const struct remote_login *what, struct error *err)
{
	cleanup_free char *public_key = unseal_public(l->unseal);
	char machine[100] = "";
	json_t *answer = NULL, *body;
	int status;

	if (!public_key)
		return cli_ours(err, "out of memory");
	if (gethostname(machine, sizeof(machine) - 1))
		machine[0] = 0;
	body = json_pack(
		"{ss ss ss}", "agentName", "sealmark", "machine", machine, "publicKey", public_key);
	if (what->purpose)
		json_object_set_new(body, "purpose", json_string(what->purpose));
	if (what->access)
		json_object_set_new(body, "access", json_string(what->access));
	if (what->daily > 0)
		json_object_set_new(body, "dailyLimitMicros", json_integer(what->daily));
	status = remote_call(l->r,
		&(struct remote_call){.method = "POST",
			.path = "/api/connect/start",
			.body = body,
			.no_key = true,
			.about = "login"},
		&answer, err);
	if (!status && (text_copy(l->device, sizeof(l->device), json_text(answer, "deviceCode")) ||
			       !l->device[0]))
		status = cli_ours(err, "login: the server's answer makes no sense");
	if (!status && l->json) {
		json_object_del(answer, "deviceCode"); /* whoever has it gets the key's cipher */
		remote_print_line(answer);
	} else if (!status) {
		fputs("Open this link and approve the key:\n\n    ", stderr);
		remote_put(stderr, json_text(answer, "verificationUri"));
		fputs("\n\nThe code there must be ", stderr);
		remote_put(stderr, json_text(answer, "userCode"));
		fputs(". Waiting for a decision; Ctrl-C gives up.\n", stderr);
	}
	json_decref(answer);
	return status;
}

/* Until it is decided; the key is in `key`. */
static int wait_decision(struct login *l, char *key, struct error *err)
{
	int64_t deadline = clock_deadline_ms(WAIT_MS);

	while (clock_ms() < deadline) {
		json_t *answer = NULL;
		int status = ask(l, "/api/connect/token", false, &answer, err);
		int64_t seconds = json_number(answer, "interval");
		char state[32] = "", sealed[2048] = "";

		text_copy(state, sizeof(state), json_text(answer, "status"));
		text_copy(sealed, sizeof(sealed), json_text(answer, "encryptedKey"));
		json_decref(answer);
		if (status && strcmp(remote_code(l->r), "rate_limited") != 0)
			return status;
		if (strcmp(state, "connected") == 0 && !sealed[0])
			return cli_ours(err, "login: the key was handed out already");
		if (strcmp(state, "connected") == 0)
			return unseal_text(l->unseal, sealed, key, REMOTE_KEY_SIZE, err) ? CLI_OURS
											 : CLI_OK;
		if (state[0] && strcmp(state, "pending") != 0) {
			error_set(err, -EREMOTEIO, "login: the request was %s",
				strcmp(state, "expired") == 0 ? "not decided in time" : state);
			return CLI_OURS;
		}
		if (!remote_pause(l->r, seconds > 0 && seconds < 60 ? seconds * 1000 : ASK_MS))
			return remote_interrupted(l->r);
	}
	return cli_ours(err, "login: nobody has decided");
}

int remote_login(
	struct remote_settings *settings, const struct remote_login *what, struct error *err)
{
	struct remote_settings at = *settings;
	struct login l = {.json = what->json};
	struct error ignored;
	char key[REMOTE_KEY_SIZE] = "";
	int status;

	text_copy(at.url, sizeof(at.url), settings->auth[0] ? settings->auth : settings->url);
	status = remote_open_with(&at, &l.r, err);
	if (!status && unseal_new(&l.unseal, err))
		status = CLI_OURS;
	if (!status)
		status = begin(&l, what, err);
	if (!status)
		status = wait_decision(&l, key, err);
	if (status >= 128 && l.device[0])
		ask(&l, "/api/connect/cancel", true, NULL, &ignored);
	if (!status && remote_settings_save(settings->url, key, err))
		status = CLI_OURS;
	if (!status) {
		text_copy(settings->key, sizeof(settings->key), key);
		status = ask(&l, "/api/connect/confirm", false, NULL, err);
	}
	explicit_bzero(key, sizeof(key));
	unseal_free(l.unseal);
	remote_free(l.r);
	return status;
}

/* --- a key that somebody has already --- */

static int read_key(char *key, struct error *err)
{
	struct buffer text = {0};
	char *line;
	int r = path_read_fd(STDIN_FILENO, REMOTE_KEY_SIZE, &text);

	if (r) {
		buffer_fini(&text);
		return cli_usage(err, "standard input holds no key");
	}
	line = buffer_text(&text);
	line[strcspn(line, "\r\n")] = 0;
	r = text_copy(key, REMOTE_KEY_SIZE, line);
	for (const char *p = key; *p; p++) {
		if (*p <= ' ' || *p > '~')
			r = -EINVAL;
	}
	explicit_bzero(line, strlen(line));
	buffer_fini(&text);
	return r || !key[0] ? cli_usage(err, "standard input holds no key") : CLI_OK;
}

/* Kept only when the server knows it. */
static int keep_key(struct remote_settings *settings, struct error *err)
{
	struct remote *r;
	int status = read_key(settings->key, err);

	if (!status)
		status = remote_open_with(settings, &r, err);
	if (status)
		return status;
	status = remote_call(r,
		&(struct remote_call){.method = "GET", .path = "/v1/me", .about = "login"}, NULL,
		err);
	if (!status && remote_settings_save(settings->url, settings->key, err))
		status = CLI_OURS;
	remote_free(r);
	return status;
}

static int run_login(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct login_options *o = options;
	struct remote_options where = o->remote;
	const struct remote_login what = {.purpose = o->purpose,
		.access = o->access,
		.daily = o->daily,
		.json = o->remote.json};
	struct remote_settings settings;
	int status;

	if (count)
		where.url = operands[0];
	if (remote_settings_load(&where, &settings, err))
		return CLI_USAGE;
	if (!settings.url[0]) {
		text_copy(settings.url, sizeof(settings.url), REMOTE_DEFAULT_URL);
		text_copy(settings.auth, sizeof(settings.auth), REMOTE_DEFAULT_URL);
	}
	status = o->with_key ? keep_key(&settings, err) : remote_login(&settings, &what, err);
	if (!status && o->remote.json)
		printf("{\"status\": \"connected\"}\n");
	else if (!status)
		fprintf(stderr, "Logged in to %s.\n", settings.url);
	if (!status && (getenv("SEALMARK_API_KEY") || getenv("RUNTIME_API_KEY")))
		log_warning("the key in the environment (SEALMARK_API_KEY, RUNTIME_API_KEY) goes "
			    "before the one that was kept now");
	explicit_bzero(settings.key, sizeof(settings.key));
	return status;
}

static int run_logout(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct login_options *o = options;
	struct remote_options where = o->remote;
	struct remote_settings settings;
	bool found;

	if (count)
		where.url = operands[0];
	if (remote_settings_load(&where, &settings, err))
		return CLI_USAGE;
	explicit_bzero(settings.key, sizeof(settings.key));
	if (!settings.url[0])
		return cli_usage(err, "there is no login to forget");
	if (remote_settings_forget(settings.url, &found, err))
		return CLI_OURS;
	if (!found)
		return cli_usage(err, "no key is kept for %.200s", settings.url);
	if (o->remote.json)
		return remote_print_json(json_pack("{ss}", "url", settings.url), err);
	fprintf(stderr,
		"Forgot the key of %s; it still works where it is known, until it is "
		"revoked.\n",
		settings.url);
	return CLI_OK;
}

#define FIELD(name) offsetof(struct login_options, name)
static const struct cli_option login_options[] = {
	CLI_OPTION("purpose", 0, "TEXT", "what the key is for, as the person will read it",
		"--purpose 'grading hw3'", cli_text, FIELD(purpose)),
	CLI_OPTION("access", 0, "ACCESS", "ask for full access (the default) or read",
		"--access read", cli_text, FIELD(access)),
	CLI_OPTION("daily-limit", 0, "DOLLARS", "propose a limit for what it may spend in a day",
		"--daily-limit 2.50", remote_money, FIELD(daily)),
	CLI_OPTION("with-key", 0, NULL, "keep the key on standard input instead of asking",
		"--with-key", cli_flag, FIELD(with_key)),
	REMOTE_OPTIONS(struct login_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_login = {
	.name = "login",
	.summary = "Get a key for a server, which a person approves, and keep it",
	.operands = "[URL]",
	.text = "Prints a link; whoever may approve keys opens it and decides. The key is kept in\n"
		"$XDG_CONFIG_HOME/sealmark/credentials.json, and its server is used from then on\n"
		"by commands that name none. Without URL: the server in use, or\n"
		"http://127.0.0.1:8080.",
	.examples = "sealmark login https://sealmark.example\n"
		    "sealmark keys create me | sealmark login --with-key\n",
	.options = login_options,
	.size = sizeof(struct login_options),
	.most = 1,
	.run = run_login,
};

static const struct cli_option logout_options[] = {
	REMOTE_OPTIONS(struct login_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_logout = {
	.name = "logout",
	.summary = "Forget the key of a server",
	.operands = "[URL]",
	.text = "The key itself goes on working; `sealmark keys revoke` ends it.",
	.examples = "sealmark logout\n",
	.options = logout_options,
	.size = sizeof(struct login_options),
	.most = 1,
	.run = run_logout,
};
