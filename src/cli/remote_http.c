/* SPDX-License-Identifier: Apache-2.0 - one HTTP request to a server, ended by a signal (libcurl).
 */
#include "cli/remote_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * Redirections are not followed (a key goes to the server that was named and no other), nothing is
 * decompressed (what came is what is counted), certificates are checked. A server that answers too
 * much, or never stops, is cut off: an answer that is no stream has a size and a time.
 */
#define ANSWER_MOST    (16u << 20)
#define ANSWER_SECONDS 150L
#define CONNECT_MS     10000L
#define LEARN_MS       5000

int remote_open_with(const struct remote_settings *settings, struct remote **out, struct error *err)
{
	struct remote *r = calloc(1, sizeof(*r));

	if (!r || curl_global_init(CURL_GLOBAL_DEFAULT)) {
		free(r);
		return cli_ours(err, "out of memory");
	}
	r->settings = *settings;
	r->multi = curl_multi_init();
	r->easy = curl_easy_init();
	r->cancel_fd = cli_cancel_fd();
	if (!r->multi || !r->easy || r->cancel_fd < 0) {
		remote_free(r);
		return cli_ours(err, "out of memory");
	}
	*out = r;
	return CLI_OK;
}

static int open_loaded(
	const struct remote_settings *settings, struct remote **out, struct error *err)
{
	if (!settings->url[0])
		return cli_usage(err,
			"no server is known: log in (sealmark login URL), or set SEALMARK_API_URL "
			"and SEALMARK_API_KEY");
	if (!settings->key[0])
		return cli_usage(err,
			"no key for %.200s: log in (sealmark login %.200s), or set "
			"SEALMARK_API_KEY",
			settings->url, settings->url);
	return remote_open_with(settings, out, err);
}

int remote_open(const struct remote_options *options, struct remote **out, struct error *err)
{
	struct remote_settings settings;
	int status;

	*out = NULL;
	if (remote_settings_load(options, &settings, err))
		return CLI_USAGE;
	status = open_loaded(&settings, out, err);
	explicit_bzero(settings.key, sizeof(settings.key));
	return status;
}

int remote_open_where(const struct remote_where *where, struct remote **out, struct error *err)
{
	struct remote_settings settings;
	int status = CLI_OK;

	*out = NULL;
	if (where->local && where->remote.url)
		return cli_usage(err, "--local and --api-url exclude each other");
	if (where->local)
		return CLI_OK;
	if (remote_settings_load(&where->remote, &settings, err))
		return CLI_USAGE;
	if (remote_is_set(&where->remote, &settings))
		status = open_loaded(&settings, out, err);
	explicit_bzero(settings.key, sizeof(settings.key));
	return status;
}

void remote_free(struct remote *r)
{
	if (!r)
		return;
	if (r->easy)
		curl_easy_cleanup(r->easy);
	if (r->multi)
		curl_multi_cleanup(r->multi);
	close_fd(&r->cancel_fd);
	explicit_bzero(r->settings.key, sizeof(r->settings.key));
	free(r);
}

const struct remote_settings *remote_settings_of(const struct remote *r)
{
	return &r->settings;
}

int remote_cancel_fd(const struct remote *r)
{
	return r->cancel_fd;
}

int remote_interrupted(struct remote *r)
{
	int signal = cli_cancel_signal(r->cancel_fd);

	if (signal)
		r->signal = signal;
	return r->signal ? 128 + r->signal : 0;
}

/* --- the answer, as it comes --- */

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
	struct exchange *x = context;
	size_t length = size * count;
	uint64_t seconds;
	char value[64];

	while (length && (line[length - 1] == '\r' || line[length - 1] == '\n'))
		length--;
	if (length >= 5 && strncmp(line, "HTTP/", 5) == 0) {
		x->retry_ms = -1;
		x->request_id[0] = 0;
	} else if (length > 13 && strncasecmp(line, "x-request-id:", 13) == 0) {
		text_format(x->request_id, sizeof(x->request_id), "%.*s",
			(int)(length - 13 - (line[13] == ' ')), line + 13 + (line[13] == ' '));
	} else if (length > 12 && strncasecmp(line, "retry-after:", 12) == 0) {
		text_format(value, sizeof(value), "%.*s", (int)(length - 12 - (line[12] == ' ')),
			line + 12 + (line[12] == ' '));
		if (text_u64(value, &seconds) == 0 && seconds < 86400)
			x->retry_ms = (int64_t)seconds * 1000;
	}
	return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	struct exchange *x = context;
	long status = 0;

	count *= size;
	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (x->call->on_bytes && status >= 200 && status < 300) {
		x->length += count;
		x->refused = x->call->on_bytes(x->call->context, bytes, count);
	} else if (buffer_add(&x->answer, bytes, count)) {
		x->refused = -EFBIG;
	}
	return x->refused ? CURL_WRITEFUNC_ERROR : count;
}

/* --- the request --- */

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	char line[REMOTE_KEY_SIZE + 64];
	struct curl_slist *more;

	if (text_format(line, sizeof(line), "%s: %s", name, value))
		return list;
	more = curl_slist_append(list, line);
	explicit_bzero(line, sizeof(line));
	return more ? more : list;
}

static struct curl_slist *headers_of(const struct remote *r, const struct exchange *x)
{
	struct curl_slist *list = curl_slist_append(NULL, "Expect:");
	char bearer[REMOTE_KEY_SIZE + 16], wait[32];

	list = curl_slist_append(list, "User-Agent: sealmark");
	if (!x->call->no_key && r->settings.key[0]) {
		text_format(bearer, sizeof(bearer), "Bearer %s", r->settings.key);
		list = add_header(list, "Authorization", bearer);
	}
	if (x->call->bytes)
		list = add_header(list, "Content-Type", "application/octet-stream");
	else if (x->body)
		list = add_header(list, "Content-Type", "application/json");
	if (x->key)
		list = add_header(list, "Idempotency-Key", x->key);
	if (x->call->prefer) {
		text_format(wait, sizeof(wait), "wait=%u", x->call->prefer);
		list = add_header(list, "Prefer", wait);
	}
	return list;
}

/* where to, and as whom it is believed */
static void set_server(
	CURL *easy, const struct remote_settings *s, const char *path, char *url, size_t size)
{
	bool is_unix = text_starts(s->url, "unix:");

	text_format(url, size, "%s%s", is_unix ? "http://localhost" : s->url, path);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	if (is_unix)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, s->url + 5);
	/* a proxy has no business between this host and itself */
	if (is_unix || text_starts(s->url, "http://"))
		curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,[::1],::1");
	if (s->ca_file[0])
		curl_easy_setopt(easy, CURLOPT_CAINFO, s->ca_file);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

static void set_request(CURL *easy, struct exchange *x, struct curl_slist *headers)
{
	const struct remote_call *c = x->call;

	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	if (c->bytes || x->body) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c->bytes ? c->bytes : x->body);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
			(curl_off_t)(c->bytes ? c->count : strlen(x->body)));
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->method);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
	if (!c->on_bytes)
		curl_easy_setopt(easy, CURLOPT_TIMEOUT, ANSWER_SECONDS + (long)c->prefer);
}

/* Has a signal come that ends this call? One that must first learn what it has begun, so that it
 * can be ended there, goes on for a moment; a call that tidies up goes on. Twice is meant. */
static bool must_end(struct remote *r, const struct remote_call *call, int64_t *since)
{
	int was = r->signal;
	bool again;

	r->signal = 0;
	again = remote_interrupted(r) && was;
	if (!r->signal)
		r->signal = was;
	if (!r->signal || again || call->anyway)
		return again;
	if (!*since)
		*since = clock_ms();
	return !call->known || *call->known || clock_ms() - *since > LEARN_MS;
}

/* Until it is done or a signal comes. */
static int drive(struct remote *r, CURLcode *code, const struct remote_call *call)
{
	int running = 1, left;
	int64_t since = 0;
	CURLMsg *message;

	while (running) {
		struct curl_waitfd cancel = {r->cancel_fd, CURL_WAIT_POLLIN, 0};

		if (curl_multi_perform(r->multi, &running))
			return -EIO;
		if (must_end(r, call, &since))
			return -EINTR;
		if (running && curl_multi_poll(r->multi, &cancel, 1, 1000, NULL))
			return -EIO;
	}
	while ((message = curl_multi_info_read(r->multi, &left))) {
		if (message->msg == CURLMSG_DONE)
			*code = message->data.result;
	}
	return 0;
}

/* What a server says that speaks the other one. */
static const char *wrong_scheme(const char *url, CURLcode code)
{
	if (code == CURLE_GOT_NOTHING && text_starts(url, "http://"))
		return " (is it https:// that it speaks?)";
	if (code == CURLE_SSL_CONNECT_ERROR && text_starts(url, "https://"))
		return " (is it http:// that it speaks?)";
	return "";
}

static int explain(struct remote *r, const struct exchange *x, CURLcode code, const char *detail,
	struct error *err)
{
	const char *why = detail[0] ? detail : curl_easy_strerror(code);

	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
		return error_set(err, -EPROTO,
			"%.200s: its certificate is not trusted: %.120s (--ca-file names more "
			"certificates to trust)",
			r->settings.url, why);
	if (code == CURLE_OPERATION_TIMEDOUT && x->arrived)
		return error_set(
			err, -ETIMEDOUT, "%.200s: no whole answer in time", r->settings.url);
	error_set(err, -ECONNRESET, "cannot reach %.200s: %.200s%s", r->settings.url, why,
		wrong_scheme(r->settings.url, code));
	if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
		code == CURLE_URL_MALFORMAT)
		return -EPROTO;
	return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ? -ECONNREFUSED
										   : -ECONNRESET;
}

int remote_exchange(struct remote *r, struct exchange *x, struct error *err)
{
	char detail[CURL_ERROR_SIZE] = "", url[8192];
	struct curl_slist *headers;
	CURLcode code = CURLE_OK;
	long request = 0;
	int result;

	x->status = 0;
	x->retry_ms = -1;
	x->refused = 0;
	x->easy = r->easy;
	buffer_fini(&x->answer);
	buffer_init(&x->answer, ANSWER_MOST);
	if (strlen(x->call->path) > sizeof(url) - REMOTE_URL_SIZE)
		return error_set(err, -EPROTO, "what is asked for is too long");
	headers = headers_of(r, x);
	curl_easy_reset(r->easy);
	curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, detail);
	set_server(r->easy, &r->settings, x->call->path, url, sizeof(url));
	set_request(r->easy, x, headers);
	curl_multi_add_handle(r->multi, r->easy);
	result = drive(r, &code, x->call);
	curl_multi_remove_handle(r->multi, r->easy);
	curl_slist_free_all(headers);
	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &x->status);
	curl_easy_getinfo(r->easy, CURLINFO_REQUEST_SIZE, &request);
	curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, NULL);
	x->arrived = x->arrived || request > 0;
	if (result == -EINTR)
		return result;
	if (result)
		return error_set(err, -EPROTO, "the connection cannot be watched");
	if (x->refused == -EFBIG && !x->call->on_bytes)
		return error_set(err, -EPROTO, "%.200s: answered with more than %u MiB",
			r->settings.url, ANSWER_MOST >> 20);
	if (x->refused)
		return -ECANCELED;
	return code == CURLE_OK ? 0 : explain(r, x, code, detail, err);
}

void *remote_connect(struct remote *r, struct error *err)
{
	char detail[CURL_ERROR_SIZE] = "", url[8192];
	struct exchange x = {0};
	CURL *easy = curl_easy_init();
	CURLcode code;

	if (!easy) {
		cli_ours(err, "out of memory");
		return NULL;
	}
	set_server(easy, &r->settings, "/", url, sizeof(url));
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
	code = curl_easy_perform(easy);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	if (code == CURLE_OK)
		return easy;
	explain(r, &x, code, detail, err);
	curl_easy_cleanup(easy);
	return NULL;
}
