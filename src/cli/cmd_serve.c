/* SPDX-License-Identifier: Apache-2.0 - sealmark serve: the platform over HTTP. */
#include "api/api.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/notify.h"
#include "cli/store.h"
#include "store/people.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_S 30 /* for requests under way, once it is told to end */

struct serve_options {
	const char *config, *listen, *public_url, *store, *cert, *key, *engine, *script, *isolation;
	uint32_t sandboxes, memory_mib, vcpu, paused_most, rate, idle;
	bool check, no_spares;
};

static int count_key(void *context, const struct store_api_key *key)
{
	*(size_t *)context += !key->revoked_ms;
	return 0;
}

/* Until there is an owner each start gives a new link; those before it end. */
static void say_owner_link(struct api_server *server)
{
	struct store_owner owner;
	struct error err = {0};
	char link[1024];
	int r = store_owner_get(api_store(server), &owner, &err);

	if (r == -ENOENT)
		r = api_owner_link(
			api_store(server), api_public_url(server), link, sizeof(link), &err);
	else if (!r)
		return;
	if (r)
		log_error("%s", error_message(&err));
	else
		printf("there is no owner yet; this link, once and within 24 hours, makes one: "
		       "%s\n",
			link);
}

/* Who comes first needs a key, and only the operator of the host can make one. */
static void say_first_words(struct api_server *server)
{
	struct error err = {0};
	size_t keys = 0;

	printf("listening on %s\n", api_address(server));
	if (store_key_each(api_store(server), count_key, &keys, &err))
		log_error("%s", error_message(&err));
	else if (!keys)
		puts("there is no key yet; make one with: sealmark keys create NAME");
	say_owner_link(server);
	fflush(stdout);
}

/* A file in $SEALMARK_HOME, which is made. */
static int home_file(const char *name, char *out, struct error *err)
{
	char home[PATH_MAX];
	int r = path_home(home, sizeof(home), err);

	if (!r)
		r = path_make(home, 0755, err);
	return r ? r : path_join(out, PATH_MAX, home, name, err);
}

int cli_serve_file(
	const char *given, struct api_options *api, struct api_config **config, struct error *err)
{
	struct buffer wrong = {0};
	char path[PATH_MAX];
	int r = given ? text_copy(path, sizeof(path), given)
		      : home_file("sealmark.yaml", path, err);

	if (r)
		return r == -ENAMETOOLONG ? error_set(err, r, "--config: the path is too long") : r;
	if (!given && access(path, F_OK))
		return 0;
	r = api_config_load(path, api, &wrong, config, err);
	if (buffer_length(&wrong))
		fputs(buffer_text(&wrong) ? buffer_text(&wrong) : "", stderr);
	buffer_fini(&wrong);
	return r;
}

/* What was said on the command line wins over the file. */
static void apply_line(const struct serve_options *o, struct api_options *api)
{
	api->engine = o->engine;
	api->script = o->script;
	api->idle_s = o->idle;
	if (o->listen)
		api->listen = o->listen;
	if (o->public_url)
		api->public_url = o->public_url;
	if (o->store)
		api->store = o->store;
	if (o->cert)
		api->tls_cert = o->cert;
	if (o->key)
		api->tls_key = o->key;
	if (o->isolation)
		api->isolation = o->isolation;
	if (o->sandboxes)
		api->sandboxes_most = o->sandboxes;
	if (o->memory_mib)
		api->memory_most_mib = o->memory_mib;
	if (o->vcpu)
		api->vcpu_most = o->vcpu;
	if (o->no_spares)
		api->spares_most = 0;
	if (o->paused_most)
		api->paused_most_s = o->paused_most;
	if (o->rate)
		api->rate = o->rate;
}

static int say_options(const struct api_options *api, struct error *err)
{
	struct buffer text = {0};
	const char *shown = api_config_show(api, &text) ? NULL : buffer_text(&text);

	if (shown)
		fputs(shown, stdout);
	buffer_fini(&text);
	return shown ? CLI_OK : cli_ours(err, "out of memory");
}

static int serve(const struct serve_options *o, const struct api_options *api, struct error *err)
{
	struct api_server *server;
	struct notify manager;
	int cancel = cli_cancel_fd(), r;

	if (cancel < 0)
		return cli_ours(err, "%s", strerror(-cancel));
	notify_init(&manager);
	r = api_start(api, o->check, &server, err);
	if (r)
		return r == -EINVAL || r == -ENOENT ? CLI_USAGE : CLI_OURS;
	if (o->check)
		return say_options(api, err);
	say_first_words(server);
	notify_say(&manager, "READY=1");
	while (poll(&(struct pollfd){cancel, POLLIN, 0}, 1, -1) < 0 && errno == EINTR)
		;
	notify_say(&manager, "STOPPING=1");
	alarm(GRACE_S); /* whatever is under way then is found again at the next start */
	api_stop(server);
	return CLI_OK;
}

static int run_serve(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct serve_options *o = options;
	struct api_options api = API_OPTIONS_INIT;
	struct api_config *config = NULL;
	char store[PATH_MAX];
	int r = cli_serve_file(o->config, &api, &config, err);

	if (r)
		return r == -EINVAL || r == -ENOENT ? CLI_USAGE : CLI_OURS;
	apply_line(o, &api);
	if (!api.store) {
		api.store = store;
		r = home_file("sealmark.db", store, err);
	}
	api_options_complete(&api);
	umask(077); /* the store holds variables of sandboxes, and hashes of keys */
	r = r ? CLI_OURS : serve(o, &api, err);
	api_config_free(config);
	return r;
}

static const struct cli_option options[] = {
	CLI_OPTION("config", 'c', "FILE",
		"the operator's file (default $SEALMARK_HOME/sealmark.yaml, if it is there)",
		"--config /etc/sealmark/sealmark.yaml", cli_text,
		offsetof(struct serve_options, config)),
	CLI_OPTION("listen", 'l', "ADDRESS",
		"HOST:PORT, or unix:PATH for a socket (default 127.0.0.1:8080)",
		"--listen 127.0.0.1:8080", cli_text, offsetof(struct serve_options, listen)),
	CLI_OPTION("public-url", 0, "URL",
		"how people reach it, when not by its address: in links, and for sign-in",
		"--public-url https://sealmark.example.org", cli_text,
		offsetof(struct serve_options, public_url)),
	CLI_OPTION("store", 0, "FILE", "the store (default $SEALMARK_HOME/sealmark.db)",
		"--store /srv/sealmark.db", cli_text, offsetof(struct serve_options, store)),
	CLI_OPTION("tls-cert", 0, "FILE", "serve HTTPS with these certificates (PEM)",
		"--tls-cert cert.pem", cli_text, offsetof(struct serve_options, cert)),
	CLI_OPTION("tls-key", 0, "FILE", "and this private key (PEM)", "--tls-key key.pem",
		cli_text, offsetof(struct serve_options, key)),
	CLI_OPTION("sandboxes", 0, "N",
		"have at most N sandboxes at once (default: eight for each CPU)", "--sandboxes 16",
		cli_u32, offsetof(struct serve_options, sandboxes), .least = 1, .most = 4000),
	CLI_OPTION("memory", 'm', "SIZE",
		"give all sandboxes and builds together at most SIZE (default: three quarters of "
		"the "
		"host's)",
		"--memory 16G", cli_mib, offsetof(struct serve_options, memory_mib), .least = 128,
		.most = 1u << 24),
	CLI_OPTION("vcpu", 0, "N",
		"give all builds and sandboxes that are not paused at most N CPUs together "
		"(default: as many as these may be)",
		"--vcpu 16", cli_u32, offsetof(struct serve_options, vcpu), .least = 1,
		.most = 65536),
	CLI_OPTION("no-spares", 0, NULL, "keep no machines ready for sandboxes to come",
		"--no-spares", cli_flag, offsetof(struct serve_options, no_spares)),
	CLI_OPTION("paused-most", 0, "N",
		"stop a sandbox that was paused for N seconds (default: a day)",
		"--paused-most 86400", cli_u32, offsetof(struct serve_options, paused_most),
		.least = 1, .most = 31536000),
	CLI_OPTION("rate", 0, "N",
		"take N requests a second of one key, four times that in a burst (default 50)",
		"--rate 50", cli_u32, offsetof(struct serve_options, rate), .least = 1,
		.most = 100000),
	CLI_OPTION("require-isolation", 0, "LEVEL",
		"start no machine that is weaker: process, kernel or hardware (default process)",
		"--require-isolation kernel", cli_text, offsetof(struct serve_options, isolation)),
	CLI_OPTION("check", 0, NULL, "say what is wrong, or else what is in force, and end",
		"--check", cli_flag, offsetof(struct serve_options, check)),
	CLI_OPTION("idle", 0, "N", "close connections that are idle for N seconds", "--idle 75",
		cli_u32, offsetof(struct serve_options, idle), .least = 1, .most = 3600,
		.hidden = true),
	CLI_OPTION("engine", 0, "ENGINE", "auto, uml or fake", "--engine auto", cli_text,
		offsetof(struct serve_options, engine), .hidden = true),
	CLI_OPTION("script", 0, "FILE", "what engine fake does", "--script file", cli_text,
		offsetof(struct serve_options, script), .hidden = true),
	CLI_OPTIONS_END,
};

const struct cli_command cli_serve = {
	.name = "serve",
	.summary = "Serve sandboxes to programs over HTTP",
	.text = "Programs create sandboxes, run commands and exchange files with them over HTTP;\n"
		"GET /v1/openapi.json says how. Each request carries a key, made with\n"
		"`sealmark keys create`. Sandboxes outlive the server: killed and started again, "
		"it\n"
		"finds them, and their leases end without it.\n"
		"\n"
		"It listens on the loopback only unless told otherwise; keys travel in the clear\n"
		"without --tls-cert. SIGTERM ends it, and leaves sandboxes alone.",
	.examples = "sealmark serve\n"
		    "sealmark serve --listen unix:/run/sealmark.sock\n"
		    "sealmark serve --config /etc/sealmark/sealmark.yaml --check\n"
		    "sealmark serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem\n",
	.options = options,
	.size = sizeof(struct serve_options),
	.run = run_serve,
};
