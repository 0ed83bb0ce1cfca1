/* SPDX-License-Identifier: Apache-2.0 - a call of the API: sent again where that is safe, its error
 * in one sentence. */
#include "cli/remote_internal.h"

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

/*
 * A change carries an Idempotency-Key and is sent again with the same one, so that it is done once
 * however often it is sent. Sent again is what found no server, lost its connection, or was
 * answered 429 or 503; how long to wait the server says, else it doubles. While there is no room
 * (wait_ms), the same call is sent until there is.
 */
#define TRIES         6u
#define REFUSALS      3u /* nothing listens there: a server that starts again needs moments */
#define FIRST_WAIT_MS 200
#define MOST_WAIT_MS  10000

bool remote_pause(struct remote *r, int64_t ms)
{
	int64_t deadline = clock_deadline_ms(ms);
	struct pollfd p = {r->cancel_fd, POLLIN, 0};

	while (!remote_interrupted(r)) {
		int left = clock_poll_ms(deadline);

		if (!left)
			return true;
		poll(&p, 1, left);
	}
	return false;
}

const char *remote_code(const struct remote *r)
{
	return r->code;
}

int remote_write_failure(struct remote *r, int code, struct error *err)
{
	if (code == -EINTR)
		return remote_interrupted(r) ? 128 + r->signal : 128 + SIGINT;
	if (code == -EPIPE)
		return 128 + SIGPIPE;
	if (err && !err->message[0])
		error_sys(err, code, "writing what comes");
	return CLI_OURS;
}

/* --- errors --- */

/* What the user can put right is 2, all else 3. */
static int status_of(long status)
{
	static const long theirs[] = {400, 404, 405, 409, 413, 422};

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
		if (theirs[i] == status)
			return CLI_USAGE;
	}
	return CLI_OURS;
}

/* The message may say it already. */
static bool says(const char *message, const json_t *issue)
{
	const char *what = json_text(issue, "message");
	char text[224];

	text_format(text, sizeof(text), "%.80s %.120s", json_text(issue, "path"), what);
	return strncmp(message, text, strlen(text)) == 0 || strcmp(message, what) == 0;
}

static void add_issues(const json_t *error, const char *message, struct buffer *text)
{
	const json_t *issues = json_object_get(json_object_get(error, "details"), "issues"), *issue;
	size_t i;

	json_array_foreach (issues, i, issue) {
		if (i == 3)
			break;
		if (says(message, issue))
			continue;
		buffer_printf(text, "; %.80s: %.120s", json_text(issue, "path"),
			json_text(issue, "message"));
	}
}

/* The server's hints are for programs: where a person at a terminal would do it in another way. */
static const char *hint_of(const json_t *error)
{
	static const struct {
		const char *code, *hint;
	} hints[] = {
		{"unauthorized",
			"Log in (sealmark login URL), or set SEALMARK_API_KEY to a key of this "
			"server; on its host, sealmark keys create makes one"},
		{"image_not_found", "sealmark image ls lists what there is"},
		{"sandbox_paused", "Wake it with sealmark sandbox wake"},
		{"sandbox_stopped", "Create another; sealmark sandbox get says why it stopped"},
		{"sandbox_not_ready", "Wait with sealmark sandbox get --wait-for running"},
		{"name_taken", "With --reuse the one of that name is taken"},
		{"is_a_directory", "sealmark sandbox cp takes folders"},
	};
	const char *code = json_text(error, "code");

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		if (strcmp(hints[i].code, code) == 0)
			return hints[i].hint;
	}
	return json_text(error, "hint");
}

int remote_error(const json_t *error, long status, const char *about, struct error *err)
{
	const char *hint = hint_of(error), *code = json_text(error, "code");
	const char *request = json_text(error, "requestId");
	const char *message = json_text(error, "message");
	struct buffer text = {0};
	size_t length = strnlen(message, 300);

	if (length && message[length - 1] == '.')
		length--;
	buffer_printf(&text, "%s%s%.*s", about ? about : "", about ? ": " : "",
		length ? (int)length : 300, length ? message : "the server gives no reason");
	add_issues(error, message, &text);
	if (*hint)
		buffer_printf(&text, ". %.160s", hint);
	buffer_printf(&text, " (%.60s%s%.60s)", *code ? code : "no code",
		*request ? ", request id " : "", request);
	error_set(err, -EREMOTEIO, "%.470s", buffer_text(&text));
	buffer_fini(&text);
	return status_of(status);
}

static int answered_error(
	struct remote *r, const struct exchange *x, const json_t *answer, struct error *err)
{
	const json_t *error = json_object_get(answer, "error");

	if (json_is_object(error)) {
		text_copy(r->code, sizeof(r->code), json_text(error, "code"));
		return remote_error(error, x->status, x->call->about, err);
	}
	error_set(err, -EREMOTEIO, "%.200s: answered with status %ld, and not as Sealmark does%s",
		r->settings.url, x->status,
		x->status >= 300 && x->status < 400
			? " (redirections are not followed: give the right address)"
			: "");
	return CLI_OURS;
}

/* --- again? --- */

static int64_t said_wait(const struct exchange *x, const json_t *answer)
{
	const json_t *ms = json_object_get(json_object_get(answer, "error"), "retryAfterMs");

	return json_is_integer(ms) && json_integer_value(ms) >= 0 ? json_integer_value(ms)
								  : x->retry_ms;
}

static bool is_no_room(const json_t *answer)
{
	static const char *const codes[] = {"no_capacity", "quota_exceeded", "trial_busy"};
	const char *code = json_text(json_object_get(answer, "error"), "code");

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (strcmp(code, codes[i]) == 0)
			return true;
	}
	return false;
}

/* How long to wait before it is sent again, or -1: that would be of no use. */
static int64_t wait_before(const struct exchange *x, const json_t *answer, int failure,
	unsigned tries, int64_t room_until)
{
	int64_t ms = FIRST_WAIT_MS << (tries < 5 ? tries : 5), said = said_wait(x, answer);
	bool again = tries + 1 < TRIES && !(x->call->once && x->arrived);

	if (failure == -ECONNREFUSED && tries >= REFUSALS)
		return -1;
	if (failure)
		return again && failure != -EPROTO && x->length == 0 ? ms : -1;
	if (is_no_room(answer)) {
		int64_t left = room_until - clock_ms();

		ms = said > 0 && said < MOST_WAIT_MS ? said : 1000;
		return left <= 0 ? -1 : ms < left ? ms : left;
	}
	if (tries + 1 < TRIES && (x->status == 429 || x->status == 503))
		return said >= 0 ? (said < 60000 ? said : 60000) : ms;
	return -1;
}

static int interrupted(const struct remote *r, struct error *err)
{
	*err = (struct error){0};
	return 128 + (r->signal ? r->signal : SIGINT);
}

/* The answer is there and says whether it went well. */
static int take_answer(
	struct remote *r, struct exchange *x, json_t *answer, json_t **out, struct error *err)
{
	bool stream = x->call->on_bytes != NULL;

	if (x->status < 200 || x->status >= 300)
		return answered_error(r, x, answer, err);
	if (!stream && !answer && out) {
		error_set(
			err, -EREMOTEIO, "%.200s: answered with what is not JSON", r->settings.url);
		return CLI_OURS;
	}
	if (out)
		*out = json_incref(answer);
	return CLI_OK;
}

static int try_until_done(struct remote *r, struct exchange *x, json_t **out, struct error *err)
{
	int64_t room_until = clock_deadline_ms(x->call->wait_ms);
	bool told = false;

	for (unsigned tries = 0;;) {
		int failure = remote_exchange(r, x, err), status;
		json_t *answer = NULL;
		int64_t wait;

		if (failure == -EINTR)
			return interrupted(r, err);
		if (failure == -ECANCELED) {
			*err = (struct error){0}; /* the context has said why */
			return remote_write_failure(r, x->refused, NULL);
		}
		if (!failure)
			answer = json_loadb((char *)buffer_bytes(&x->answer),
				buffer_length(&x->answer), JSON_ALLOW_NUL, NULL);
		wait = failure || x->status >= 400
			       ? wait_before(x, answer, failure, tries, room_until)
			       : -1;
		if (wait < 0) {
			status = failure ? CLI_OURS : take_answer(r, x, answer, out, err);
			json_decref(answer);
			return status;
		}
		if (!failure && is_no_room(answer)) {
			if (!told)
				log_info("no room now; waiting");
			told = true;
		} else {
			tries++;
		}
		json_decref(answer);
		if (!remote_pause(r, wait) && !x->call->anyway)
			return interrupted(r, err);
	}
}

int remote_call(struct remote *r, const struct remote_call *call, json_t **out, struct error *err)
{
	struct exchange x = {.call = call};
	struct error own = {0};
	char key[ID_SIZE];
	bool change = strcmp(call->method, "GET") != 0;
	int status;

	if (out)
		*out = NULL;
	r->code[0] = 0;
	if (r->signal && !call->anyway) {
		json_decref(call->body);
		return interrupted(r, err);
	}
	if (change && !call->bytes)
		x.body = call->body ? json_dumps(call->body, JSON_COMPACT) : strdup("{}");
	json_decref(call->body);
	if (change && !call->bytes && !x.body)
		return cli_ours(err, "out of memory");
	id_uuid(key);
	x.key = call->again ? call->again : change ? key : NULL;
	status = try_until_done(r, &x, out, &own);
	if (err && status && own.message[0])
		*err = own;
	else if (status == CLI_OURS && err && !err->message[0])
		error_sys(err, x.refused ? x.refused : EIO, "writing what comes");
	free(x.body);
	buffer_fini(&x.answer);
	return status;
}
